#include "train/reporter.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

TEST(Waiting, IsToldOnlyWhereItIsMoreThanAHundredthOfTheTime) {
  const StragglerReport report{.steps = 100, .ranks = {{3, 0.1}, {97, 3.2}}};
  EXPECT_EQ(noticeable_waiting(report, 100),
            "rank 1 was last in 97 of 100 steps: the others waited 3.20 s for it");
  EXPECT_EQ(noticeable_waiting(report, 400), std::nullopt);
  EXPECT_EQ(noticeable_waiting({}, 0), std::nullopt);
}

TEST(Waiting, IsAddedUpOverARun) {
  const StragglerReport first{.steps = 10, .ranks = {{9, 1.5}, {1, 0.5}}};
  const StragglerReport all = joined(joined({}, first), first);
  EXPECT_EQ(all.steps, 20);
  EXPECT_EQ(all.ranks[0].steps_late, 18);
  EXPECT_EQ(all.ranks[1].seconds_caused, 1);
}

}  // namespace
}  // namespace lockstep::train
