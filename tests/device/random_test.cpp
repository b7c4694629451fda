#include "device/random.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace lockstep {
namespace {

TEST(RandomStream, IsAPureFunctionOfItsKey) {
  RandomStream a(Purpose::shuffle, 1, 2), b(Purpose::shuffle, 1, 2);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.next(), b.next());
}

TEST(RandomStream, DiffersWhereAnyPartOfTheKeyDiffers) {
  const std::set<uint64_t> firsts = {
      RandomStream(Purpose::shuffle, 1, 2).next(), RandomStream(Purpose::augment, 1, 2).next(),
      RandomStream(Purpose::shuffle, 2, 1).next(), RandomStream(Purpose::shuffle, 1, 3).next(),
      RandomStream(Purpose::shuffle, 1).next(),    RandomStream(Purpose::shuffle, 1, 2, 0).next(),
      RandomStream(Purpose::shuffle, 0, 0).next(), RandomStream(Purpose::shuffle, 0).next()};
  EXPECT_EQ(firsts.size(), 8);
}

// The stream is part of every recipe's result: a change here changes all models.
TEST(RandomStream, GivesTheSameNumbersForEver) {
  RandomStream stream(Purpose::weights, 1);
  EXPECT_EQ(stream.next(), 15453050337563922905U);
}

TEST(RandomStream, BelowCoversItsRangeEvenly) {
  RandomStream stream(Purpose::augment, 7);
  std::array<int, 5> counts{};
  for (int i = 0; i < 50000; ++i) ++counts[stream.below(5)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 400);
}

TEST(RandomStream, UniformStaysInTheHalfOpenUnitInterval) {
  RandomStream stream(Purpose::augment, 9);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double value = stream.uniform();
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    sum += value;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

}  // namespace
}  // namespace lockstep
