#include "parallel/gradient_layout.h"

#include <gtest/gtest.h>

#include "expect_error.h"

namespace lockstep::parallel {
namespace {

const std::vector<size_t> kReversed = {3, 2, 1, 0};

TEST(GradientLayout, PutsGradientsInTheOrderTheyComeEachOnACacheLine) {
  const std::vector<GradientSize> sizes = {
      {3, Type::f32}, {17, Type::f32}, {1, Type::f32}, {16, Type::f32}};
  const GradientLayout layout = lay_out(sizes, kReversed, {});
  ASSERT_EQ(layout.buckets.size(), 1U);
  EXPECT_EQ(layout.places[3].begin, 0);
  EXPECT_EQ(layout.places[2].begin, 64);
  EXPECT_EQ(layout.places[1].begin, 128);
  EXPECT_EQ(layout.places[0].begin, 256);
  EXPECT_EQ(layout.bytes, 320);
  EXPECT_EQ(layout.buckets[0].parameters, kReversed);
}

TEST(GradientLayout, ClosesASmallFirstBucketAndThenLargeOnes) {
  const std::vector<GradientSize> sizes(6, {16, Type::f32});
  const std::vector<size_t> order = {0, 1, 2, 3, 4, 5};
  const GradientLayout layout = lay_out(sizes, order, {.first_bytes = 1, .bytes = 128});
  ASSERT_EQ(layout.buckets.size(), 4U);
  EXPECT_EQ(layout.buckets[0].parameters, (std::vector<size_t>{0}));
  EXPECT_EQ(layout.buckets[1].parameters, (std::vector<size_t>{1, 2}));
  EXPECT_EQ(layout.buckets[3].parameters, (std::vector<size_t>{5}));
}

TEST(GradientLayout, KeepsTypesApart) {
  const std::vector<GradientSize> sizes = {{8, Type::f32}, {8, Type::f64}, {8, Type::f32}};
  const std::vector<size_t> order = {0, 1, 2};
  const GradientLayout layout = lay_out(sizes, order, {});
  ASSERT_EQ(layout.buckets.size(), 3U);
  EXPECT_EQ(layout.buckets[1].type, Type::f64);
  EXPECT_EQ(layout.buckets[1].count(), 8);
}

TEST(GradientLayout, IsDividedByRanksSoThatTheirSlicesOfABucketCoverItOnce) {
  const std::vector<GradientSize> sizes = {
      {3, Type::f32}, {17, Type::f32}, {1000, Type::f32}, {16, Type::f32}};
  const GradientLayout layout = lay_out(sizes, kReversed, {.first_bytes = 1, .bytes = 128});
  ASSERT_EQ(layout.buckets.size(), 4U);
  for (size_t bucket = 0; bucket < layout.buckets.size(); ++bucket) {
    int64_t next = layout.buckets[bucket].begin / 4;
    for (int rank = 0; rank < 5; ++rank) {
      const Range own = slices_of_rank(layout, 5, rank)[bucket];
      EXPECT_EQ(own.begin, next);
      EXPECT_NEAR(static_cast<double>(own.size()),
                  static_cast<double>(layout.buckets[bucket].count()) / 5, 1);
      next = own.end;
    }
    EXPECT_EQ(next, layout.buckets[bucket].end / 4);
  }
}

TEST(GradientLayout, RefusesBucketsOfNothing) {
  expect_bad_input([] { lay_out({}, {}, {.first_bytes = 1, .bytes = 0}); }, {"at least 1"});
}

}  // namespace
}  // namespace lockstep::parallel
