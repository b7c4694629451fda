#include "data/prefetcher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

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

}  // namespace
}  // namespace lockstep::data
