#include "transport/shm/heap.h"

#include <gtest/gtest.h>

namespace lockstep::transport {
namespace {

TEST(Heap, HandsOutRangesThatDoNotOverlap) {
  Heap heap(10 * Heap::kPage);
  EXPECT_EQ(heap.take(1), 0);
  EXPECT_EQ(heap.take(Heap::kPage + 1), Heap::kPage);
  EXPECT_EQ(heap.take(0), 3 * Heap::kPage);
}

TEST(Heap, HasNothingWhenFull) {
  Heap heap(2 * Heap::kPage);
  EXPECT_EQ(heap.take(3 * Heap::kPage), std::nullopt);
  EXPECT_TRUE(heap.take(2 * Heap::kPage).has_value());
  EXPECT_EQ(heap.take(1), std::nullopt);
}

TEST(Heap, JoinsWhatIsGivenBack) {
  Heap heap(3 * Heap::kPage);
  const auto first = heap.take(1);
  const auto second = heap.take(1);
  const auto third = heap.take(1);
  heap.give_back(*first);
  heap.give_back(*third);
  EXPECT_EQ(heap.take(2 * Heap::kPage), std::nullopt);
  heap.give_back(*second);
  EXPECT_EQ(heap.take(3 * Heap::kPage), 0);
}

TEST(Heap, CannotBeAskedForMoreThanNumbersHold) {
  Heap heap(Heap::kPage);
  EXPECT_EQ(heap.take(~uint64_t{0}), std::nullopt);
}

}  // namespace
}  // namespace lockstep::transport
