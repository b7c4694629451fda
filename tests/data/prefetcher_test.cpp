#include "data/prefetcher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace lockstep::data {
namespace {

void note_position(BatchPosition at, BatchBuffer& buffer) {
  buffer.batch.epoch = at.epoch;
  buffer.batch.index = at.index;
}

TEST(Prefetcher, RethrowsAnErrorAfterTheBatchesBeforeIt) {
  Prefetcher prefetcher(std::vector<BatchBuffer>(4), 10, [](BatchPosition at, BatchBuffer& buffer) {
    if (at.index == 2) throw std::runtime_error("the third cannot be read");
    note_position(at, buffer);
  });
  EXPECT_EQ(prefetcher.next().index, 0);
  EXPECT_EQ(prefetcher.next().index, 1);
  EXPECT_THROW(prefetcher.next(), std::runtime_error);
  EXPECT_THROW(prefetcher.next(), std::runtime_error);
}

TEST(Prefetcher, EndsWithAnErrorPending) {
  for (int i = 0; i < 50; ++i)
    Prefetcher prefetcher(std::vector<BatchBuffer>(2), 10, [](BatchPosition, BatchBuffer&) {
      throw std::runtime_error("nothing can be read");
    });
}

TEST(Prefetcher, CountsOnIntoTheNextEpoch) {
  Prefetcher prefetcher(std::vector<BatchBuffer>(3), 4, note_position);
  for (int64_t i = 0; i < 20; ++i) {
    const LoadedBatch& batch = prefetcher.next();
    EXPECT_EQ(batch.epoch, i / 4);
    EXPECT_EQ(batch.index, i % 4);
  }
}

TEST(Prefetcher, FillsNoMoreThanItHasBuffersFor) {
  std::atomic<int> fills = 0;
  {
    Prefetcher prefetcher(std::vector<BatchBuffer>(3), 100,
                          [&](BatchPosition at, BatchBuffer& buffer) {
                            ++fills;
                            note_position(at, buffer);
                          });
    prefetcher.next();
    prefetcher.next();
  }
  // One in use and two ready, after one was given back.
  EXPECT_LE(fills, 4);
}

// Places and indices of the batches that were delivered, in order.
struct Delivered {
  std::atomic<int64_t> count = 0;
  std::atomic<int64_t> at[2] = {-1, -1};  // by place: the batch that is there

  Deliver deliver() {
    return [this](const LoadedBatch& batch) {
      at[batch.place] = batch.index;
      ++count;
    };
  }
};

TEST(Prefetcher, DeliversOneBatchAheadToThePlaceThatIsNotInUse) {
  Delivered delivered;
  Prefetcher prefetcher(std::vector<BatchBuffer>(4), 100, note_position, delivered.deliver());
  for (int64_t i = 0; i < 20; ++i) {
    const LoadedBatch& batch = prefetcher.next();
    EXPECT_EQ(batch.index, i);
    EXPECT_LE(delivered.count, i + 2);
    while (delivered.count < i + 2) std::this_thread::yield();
    EXPECT_EQ(delivered.at[batch.place], i) << "it was overwritten while it was in use";
    EXPECT_EQ(delivered.at[1 - batch.place], i + 1);
  }
}

TEST(Prefetcher, DeliversAgainAfterASeekAndLeavesTheBatchInUse) {
  Delivered delivered;
  Prefetcher prefetcher(std::vector<BatchBuffer>(4), 100, note_position, delivered.deliver());
  const LoadedBatch& first = prefetcher.next();
  const int place = first.place;
  for (const int64_t index : {50, 70, 90}) prefetcher.seek({0, index});
  EXPECT_EQ(delivered.at[place], 0);
  const LoadedBatch& then = prefetcher.next();
  EXPECT_EQ(then.index, 90);
  EXPECT_EQ(delivered.at[then.place], 90);
}

TEST(Prefetcher, DeliversTheBatchesBeforeOneThatCannotBeRead) {
  Delivered delivered;
  Prefetcher prefetcher(
      std::vector<BatchBuffer>(4), 10,
      [](BatchPosition at, BatchBuffer& buffer) {
        if (at.index == 3) throw std::runtime_error("the fourth cannot be read");
        note_position(at, buffer);
      },
      delivered.deliver());
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(prefetcher.next().index, i);
  EXPECT_THROW(prefetcher.next(), std::runtime_error);
}

TEST(Prefetcher, RethrowsAnErrorOfADelivery) {
  Prefetcher prefetcher(std::vector<BatchBuffer>(4), 10, note_position,
                        [](const LoadedBatch& batch) {
                          if (batch.index == 1) throw std::runtime_error("no room");
                        });
  EXPECT_EQ(prefetcher.next().index, 0);
  EXPECT_THROW(prefetcher.next(), std::runtime_error);
  EXPECT_THROW(prefetcher.next(), std::runtime_error);
}

}  // namespace
}  // namespace lockstep::data
