#include "device/stream_set.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <latch>
#include <stdexcept>
#include <thread>

#include "expect_error.h"
#include "lockstep/error.h"

namespace lockstep::device {
namespace {

const std::string kWrites = "the writer", kReads = "the reader";

class StreamSetTest : public testing::Test {
 protected:
  std::vector<MemoryAccess> reads() { return {{&history_, {.end = 8}}}; }
  std::vector<MemoryAccess> writes() { return {{&history_, {.end = 8, .written = true}}}; }

  AccessHistory history_;
  int value_ = 0;
  StreamSet streams_{{.kind = "virtual", .devices = 2, .largest_delay = 1e-4}};
  const StreamId one_ = {0, 0}, other_ = {0, 1}, elsewhere_ = {1, 0};
};

TEST_F(StreamSetTest, ComputesWhatIsOrderedByEvents) {
  for (int i = 0; i < 50; ++i) {
    streams_.start(one_, kWrites, writes(), [this] { ++value_; });
    streams_.wait(other_, streams_.record(one_));
    int seen = 0;
    streams_.start(other_, kReads, reads(), [&] { seen = value_; });
    streams_.wait(one_, streams_.record(other_));
    streams_.synchronize(streams_.record(other_));
    EXPECT_EQ(seen, i + 1);
  }
}

TEST_F(StreamSetTest, RefusesARaceAndDoesNotStartIt) {
  streams_.start(one_, kWrites, writes(), [this] { ++value_; });
  expect_bad_input([&] { streams_.start(other_, kReads, reads(), [this] { value_ = -1; }); },
                   {"the reader reads", "virtual:0", "the writer writes"});
  streams_.synchronize_device(0);
  EXPECT_EQ(value_, 1);
  streams_.start(other_, kReads, reads(), [] {});
}

TEST_F(StreamSetTest, WaitsForATaskAndThrowsWhatItThrows) {
  streams_.run(one_, kWrites, writes(), [this] { value_ = 3; });
  EXPECT_EQ(value_, 3);
  EXPECT_THROW(streams_.run(one_, kWrites, writes(), [] { throw std::runtime_error("own"); }),
               std::runtime_error);
  streams_.synchronize_device(0);
}

TEST_F(StreamSetTest, TellsAnErrorOnceThoughAnotherStreamHasWaitedForIt) {
  streams_.start(one_, kWrites, writes(), [] { throw std::runtime_error("the error"); });
  streams_.wait(elsewhere_, streams_.record(one_));
  streams_.start(elsewhere_, kReads, reads(), [this] { value_ = 1; });
  EXPECT_THROW(streams_.synchronize_device(1), std::runtime_error);
  EXPECT_EQ(value_, 0);
  streams_.synchronize_device(0);
}

TEST_F(StreamSetTest, SaysWhetherAnEventHasHappened) {
  streams_.start(one_, kWrites, writes(), [this] { value_ = 1; });
  const StreamEvent written = streams_.record(one_);
  while (!streams_.query(written)) std::this_thread::yield();
  EXPECT_EQ(value_, 1);
  streams_.start(other_, kReads, reads(), [] {});  // ordered, since the host has waited
}

TEST_F(StreamSetTest, RefusesStreamsThatDoNotExist) {
  expect_bad_input([&] { streams_.record({2, 0}); }, {"virtual:2 has no stream 0"});
  expect_bad_input([&] { streams_.record({0, 99}); }, {"virtual:0 has no stream 99"});
}

TEST_F(StreamSetTest, IsUsedByManyThreads) {
  std::atomic<int> sum = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        const StreamId own = {i % 2, i};
        AccessHistory history;
        const std::vector<MemoryAccess> uses = {{&history, {.end = 8, .written = true}}};
        for (int j = 0; j < 50; ++j) {
          streams_.start(own, kWrites, uses, [&] { ++sum; });
          if (j % 10 == 0) streams_.wait(own, streams_.record({(i + 1) % 2, (i + 1) % 4}));
        }
        streams_.synchronize(streams_.record(own));
      });
  }
  EXPECT_EQ(sum, 200);
}

// While a thread waits for room in a full stream, the task that it waits for starts others.
TEST_F(StreamSetTest, LetsATaskUseAnotherDeviceWhileItsOwnStreamIsFull) {
  constexpr int kMoreThanAreQueued = 1500;
  std::latch go(1);
  std::atomic<int> sum = 0;
  std::promise<void> started;
  auto all_started = started.get_future();
  streams_.start(one_, kWrites, {}, [&] {
    go.wait();
    for (int i = 0; i < kMoreThanAreQueued; ++i)
      streams_.start(elsewhere_, kWrites, {}, [&] { ++sum; });
    for (int i = 0; i < kMoreThanAreQueued; ++i) streams_.start(one_, kWrites, {}, [&] { ++sum; });
  });
  std::jthread host([&] {
    for (int i = 0; i < kMoreThanAreQueued; ++i) streams_.start(one_, kWrites, {}, [&] { ++sum; });
    started.set_value();
  });
  EXPECT_EQ(all_started.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout)
      << "the stream was not full";
  go.count_down();
  if (all_started.wait_for(std::chrono::seconds(30)) == std::future_status::timeout) {
    fmt::print(stderr, "a task and the host wait for each other\n");
    std::abort();  // nothing would ever end
  }
  streams_.synchronize_device(0);  // the task that starts others has ended
  streams_.finish();
  EXPECT_EQ(sum, 3 * kMoreThanAreQueued);
}

TEST_F(StreamSetTest, FinishesWhatWasStartedThoughAThreadGoesOn) {
  std::atomic<bool> finished = false;
  std::jthread thread([&] {
    while (!finished) streams_.start(elsewhere_, kWrites, {}, [] {});
  });
  streams_.start(one_, kWrites, writes(), [this] { value_ = 1; });
  streams_.finish();
  EXPECT_EQ(value_, 1);
  finished = true;
}

TEST_F(StreamSetTest, FinishesAllStreamsThoughOneHasFailed) {
  streams_.start(one_, kWrites, {}, [] { throw std::runtime_error("broken"); });
  streams_.start(other_, kWrites, writes(), [this] { value_ = 1; });
  testing::internal::CaptureStderr();
  streams_.finish();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "lockstep: virtual:0 failed, and nobody has waited for it: broken\n");
  EXPECT_EQ(value_, 1);
}

}  // namespace
}  // namespace lockstep::device
