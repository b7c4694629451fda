#include "device/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/error.h"

namespace lockstep::device {
namespace {

TEST(Stream, RunsTasksInTheOrderInWhichTheyWereStarted) {
  std::vector<int> order;
  Stream stream({.name = "test"});
  for (int i = 0; i < 5000; ++i) stream.start([&order, i] { order.push_back(i); });
  stream.synchronize();
  std::vector<int> expected(5000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
}

TEST(Stream, ReturnsBeforeATaskHasEnded) {
  std::latch go(1);
  Stream stream({.name = "test"});
  const Stream::Moment end = stream.start([&] { go.wait(); });
  EXPECT_FALSE(stream.has_reached(end));
  go.count_down();
  stream.synchronize(end);
  EXPECT_TRUE(stream.has_reached(end));
}

TEST(Stream, WaitsForAnother) {
  std::latch go(1);
  std::atomic<int> value = 0;
  Stream one({.name = "one"}), other({.name = "other"});
  const Stream::Moment written = one.start([&] {
    go.wait();
    value = 7;
  });
  other.wait_for(one, written);
  int seen = 0;
  other.start([&] { seen = value; });
  go.count_down();
  other.synchronize();
  EXPECT_EQ(seen, 7);
}

TEST(Stream, TellsAnErrorWhenItIsWaitedForAndDropsTheTasksAfterIt) {
  std::atomic<int> ran = 0;
  Stream stream({.name = "test"});
  stream.start([] { throw std::runtime_error("the first"); });
  stream.start([&] { ++ran; });
  stream.start([] { throw std::runtime_error("the second"); });
  try {
    stream.synchronize();
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the first");
  }
  EXPECT_EQ(ran, 0);
  stream.start([&] { ++ran; });
  stream.synchronize();
  EXPECT_EQ(ran, 1);
}

TEST(Stream, TellsAnErrorToOneThatWaitsForItLater) {
  Stream one({.name = "one"}), other({.name = "other"});
  const Stream::Moment end = one.start([] { throw std::runtime_error("the error"); });
  one.await(end);
  other.wait_for(one, end);
  EXPECT_THROW(other.synchronize(), std::runtime_error);
  EXPECT_THROW(one.synchronize(), std::runtime_error);
}

TEST(Stream, TellsNoErrorToOneThatWaitsForWhatWasBeforeIt) {
  Stream one({.name = "one"}), other({.name = "other"});
  const Stream::Moment before = one.start([] {});
  one.await(one.start([] { throw std::runtime_error("the error"); }));
  other.wait_for(one, before);
  other.synchronize();
  EXPECT_THROW(one.synchronize(), std::runtime_error);
}

TEST(Stream, RefusesATaskThatWaitsForItsOwnStream) {
  Stream stream({.name = "test"});
  stream.start([&] { stream.synchronize(); });
  EXPECT_THROW(stream.synchronize(), Error);
}

TEST(Stream, FreesWhatATaskHoldsBeforeItHasEnded) {
  const auto held = std::make_shared<int>(1);
  Stream stream({.name = "test"});
  stream.start([held] {});
  stream.synchronize();
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Stream, PreparesItsThreadFirst) {
  std::string order;
  Stream stream({.name = "test", .prepare = [&] { order += "prepared "; }});
  stream.start([&] { order += "ran"; });
  stream.synchronize();
  EXPECT_EQ(order, "prepared ran");
}

TEST(Stream, TakesTasksFromSeveralThreads) {
  int sum = 0;
  Stream stream({.name = "test"});
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int j = 0; j < 1000; ++j) stream.start([&] { ++sum; });
        stream.synchronize();
      });
  }
  EXPECT_EQ(sum, 4000);
}

TEST(Stream, EndsWhatWasStartedBeforeItIsDestroyed) {
  int ran = 0;
  {
    Stream stream({.name = "test", .largest_delay = 1e-4});
    for (int i = 0; i < 100; ++i) stream.start([&] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
}

}  // namespace
}  // namespace lockstep::device
