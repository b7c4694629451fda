#include "collective/serial_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "expect_error.h"
#include "lockstep/error.h"

namespace lockstep::collective {
namespace {

TEST(SerialQueue, RunsActionsInTheOrderInWhichTheyWereGiven) {
  SerialQueue queue;
  std::vector<int> done;
  const Pending first = queue.start([&] { done.push_back(1); });
  queue.run([&] { done.push_back(2); });
  queue.start([&] { done.push_back(3); }).wait();
  EXPECT_TRUE(first.done());
  EXPECT_EQ(done, (std::vector{1, 2, 3}));
}

TEST(SerialQueue, LeavesActionsToWhoeverWaitsForThem) {
  SerialQueue queue;
  std::vector<std::thread::id> by;
  const auto note = [&] { by.push_back(std::this_thread::get_id()); };
  const Pending first = queue.start(note, nullptr, Runner::waiter);
  const Pending second = queue.start(note, nullptr, Runner::waiter);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(first.done());
  second.wait();
  EXPECT_TRUE(first.done());
  EXPECT_EQ(by, std::vector(2, std::this_thread::get_id()));
}

TEST(SerialQueue, RunsActionsLeftToAWaiterBeforeALaterOne) {
  SerialQueue queue;
  std::vector<int> done;
  const Pending left = queue.start([&] { done.push_back(1); }, nullptr, Runner::waiter);
  queue.start([&] { done.push_back(2); });
  while (!left.done()) std::this_thread::yield();
  queue.run([&] { done.push_back(3); });
  EXPECT_EQ(done, (std::vector{1, 2, 3}));
}

TEST(SerialQueue, LetsSeveralThreadsWaitForTheSameActions) {
  SerialQueue queue;
  std::atomic<int> count = 0;
  std::vector<Pending> all;
  for (int i = 0; i < 100; ++i)
    all.push_back(
        queue.start([&] { ++count; }, nullptr, i % 3 == 0 ? Runner::own_thread : Runner::waiter));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (const Pending& each : all) each.wait();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 100);
}

TEST(SerialQueue, EndsActionsThatHaveNotBegunWithAnError) {
  Pending left;
  {
    SerialQueue queue;
    left = queue.start([] {}, nullptr, Runner::waiter);
  }
  EXPECT_EQ(message_of<Error>([&] { left.wait(); }),
            "the communicator was closed before this began");
}

TEST(SerialQueue, ThrowsWhatAnActionHasThrown) {
  SerialQueue queue;
  const Pending failed = queue.start([] { throw Error("lost"); });
  EXPECT_EQ(message_of<Error>([&] { failed.wait(); }), "lost");
  queue.start([] {}).wait();
}

TEST(SerialQueue, FreesWhatAnActionHoldsBeforeItHasEnded) {
  SerialQueue queue;
  for (int i = 0; i < 500; ++i) {
    const auto held = std::make_shared<int>(i);
    queue.start([held] {}).wait();
    ASSERT_EQ(held.use_count(), 1);
  }
}

}  // namespace
}  // namespace lockstep::collective
