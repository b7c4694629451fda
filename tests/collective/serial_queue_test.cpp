#include "collective/serial_queue.h"

#include <gtest/gtest.h>

#include <memory>
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
