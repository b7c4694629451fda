#include "lockstep/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "expect_error.h"

namespace lockstep {
namespace {

std::vector<size_t> all_of(DistributedSampler& sampler) {
  std::vector<size_t> all;
  while (const auto batch = sampler.next(4)) all.insert(all.end(), batch->begin(), batch->end());
  return all;
}

// How often each sample came, over all workers.
std::map<size_t, int> counts(size_t samples, int world, const SamplerOptions& options) {
  std::map<size_t, int> counted;
  for (int rank = 0; rank < world; ++rank) {
    DistributedSampler sampler(samples, rank, world, options);
    for (const size_t sample : all_of(sampler)) ++counted[sample];
  }
  return counted;
}

TEST(DistributedSampler, GivesEverySampleOnceInEvaluation) {
  for (const int world : {1, 2, 3, 7})
    for (const size_t samples : {7U, 10U, 21U}) {
      const auto counted = counts(samples, world, {.uneven = Uneven::keep});
      EXPECT_EQ(counted.size(), samples);
      for (const auto& [sample, times] : counted) EXPECT_EQ(times, 1) << sample;
    }
}

TEST(DistributedSampler, PadsOrDropsSoThatAllHaveEquallyMany) {
  DistributedSampler padded(10, 2, 3, {.uneven = Uneven::pad});
  DistributedSampler dropped(10, 2, 3, {.uneven = Uneven::drop});
  EXPECT_EQ(padded.size(), 4U);
  EXPECT_EQ(dropped.size(), 3U);
  EXPECT_EQ(counts(10, 3, {.uneven = Uneven::pad}).size(), 10U);
  for (const auto& [sample, times] : counts(10, 3, {.uneven = Uneven::drop}))
    EXPECT_EQ(times, 1) << sample;
}

TEST(DistributedSampler, ShufflesAnewInEveryEpochAndAlikeInTheSame) {
  DistributedSampler sampler(100, 0, 2);
  const auto first = all_of(sampler);
  sampler.set_epoch(1);
  const auto second = all_of(sampler);
  sampler.set_epoch(0);
  EXPECT_NE(first, second);
  EXPECT_EQ(first, all_of(sampler));
}

TEST(DistributedSampler, IsSharedWithItsCopies) {
  DistributedSampler sampler(100, 0, 2);
  DistributedSampler copy = sampler;
  sampler.set_epoch(5);
  DistributedSampler fresh(100, 0, 2);
  fresh.set_epoch(5);
  EXPECT_EQ(all_of(copy), all_of(fresh));
}

TEST(DistributedSampler, WarnsOnceWhenTheEpochNeverChanges) {
  DistributedSampler sampler(10, 0, 2);
  testing::internal::CaptureStderr();
  for (int epoch = 0; epoch < 4; ++epoch) sampler.reset();
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_NE(warning.find("set_epoch was never called"), std::string::npos) << warning;
  EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1);

  DistributedSampler careful(10, 0, 2);
  testing::internal::CaptureStderr();
  for (int epoch = 0; epoch < 4; ++epoch) {
    careful.set_epoch(epoch);
    careful.reset();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(DistributedSampler, WarnsOnRank0Alone) {
  DistributedSampler sampler(10, 1, 2);
  testing::internal::CaptureStderr();
  for (int epoch = 0; epoch < 4; ++epoch) sampler.reset();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(DistributedSampler, RefusesRanksAndSizesThatCannotBe) {
  expect_bad_input([] { DistributedSampler(10, 2, 2); }, {"rank 2 of 2"});
  expect_bad_input([] { DistributedSampler(1, 0, 2, {.uneven = Uneven::drop}); },
                   {"expected at least 2"});
}

}  // namespace
}  // namespace lockstep
