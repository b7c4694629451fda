#include "optim/schedule.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "lockstep/error.h"

namespace lockstep::optim {
namespace {

TEST(Schedule, ConstantStaysAtThePeak) {
  const Schedule schedule({.name = "constant"}, 0.1, 100, 10);
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule.at(99), 0.1);
}

TEST(Schedule, StepDropsAtEachMilestone) {
  const Schedule schedule({.name = "step", .milestones = {2, 4}, .gamma = 0.1}, 1.0, 60, 10);
  EXPECT_DOUBLE_EQ(schedule.at(19), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(20), 0.1);
  EXPECT_NEAR(schedule.at(40), 0.01, 1e-12);
}

TEST(Schedule, CosineGoesFromPeakToTheFinalFraction) {
  const Schedule schedule({.name = "cosine", .final_fraction = 0.1}, 1.0, 100, 10);
  EXPECT_DOUBLE_EQ(schedule.at(0), 1.0);
  EXPECT_NEAR(schedule.at(50), 0.55, 1e-9);
  EXPECT_NEAR(schedule.at(100), 0.1, 1e-9);
}

TEST(Schedule, WarmUpRisesInAStraightLineToThePeak) {
  const Schedule schedule({.name = "cosine", .warmup_epochs = 2}, 1.0, 100, 5);
  EXPECT_NEAR(schedule.at(0), 1.0 / 11, 1e-12);
  EXPECT_NEAR(schedule.at(1) - schedule.at(0), 1.0 / 11, 1e-12);
  EXPECT_NEAR(schedule.at(9), 10.0 / 11, 1e-12);
  EXPECT_DOUBLE_EQ(schedule.at(10), 1.0);
}

// PyTorch 1.13: OneCycleLR(max_lr=0.1, total_steps=100), learning rates before each step.
TEST(Schedule, OneCycleIsPyTorchs) {
  const Schedule schedule({.name = "one_cycle"}, 0.1, 100, 10);
  EXPECT_NEAR(schedule.at(0), 0.004, 1e-9);
  EXPECT_NEAR(schedule.at(29), 0.1, 1e-9);
  EXPECT_NEAR(schedule.at(99), 4e-7, 1e-9);
  EXPECT_NEAR(schedule.at(64), 0.0500002, 1e-7);
}

TEST(Schedule, OneCycleHasNoWarmUpBesidesItsOwn) {
  const Schedule with({.name = "one_cycle", .warmup_epochs = 3}, 0.1, 100, 10);
  const Schedule without({.name = "one_cycle"}, 0.1, 100, 10);
  for (int64_t step = 0; step < 100; ++step) EXPECT_EQ(with.at(step), without.at(step)) << step;
}

TEST(Schedule, WarmUpGoesToTheRateThatFollowsIt) {
  const Schedule schedule({.name = "step", .warmup_epochs = 2, .milestones = {1}, .gamma = 0.5},
                          1.0, 60, 10);
  EXPECT_NEAR(schedule.at(0), 0.5 / 21, 1e-12);
  EXPECT_DOUBLE_EQ(schedule.at(20), 0.5);
}

TEST(Schedule, RefusesAStepWithoutMilestones) {
  expect_bad_input([] { Schedule({.name = "step"}, 0.1, 10, 10); },
                   {"schedule.milestones", "such as [80, 120]"});
}

TEST(Schedules, EveryOneStaysBetweenZeroAndThePeak) {
  EXPECT_EQ(schedules().names(),
            (std::vector<std::string>{"constant", "cosine", "one_cycle", "step"}));
  for (const auto& row : schedules()) {
    EXPECT_FALSE(row->about.empty()) << row->name;
    const Schedule schedule({.name = row->name, .warmup_epochs = 1, .milestones = {2, 5}}, 0.1, 100,
                            10);
    for (int64_t step = 0; step < 100; ++step) {
      EXPECT_GT(schedule.at(step), 0) << row->name << " " << step;
      EXPECT_LE(schedule.at(step), 0.1) << row->name << " " << step;
    }
  }
}

TEST(Schedules, RefuseASecondOneOfAName) {
  expect_bad_input([] { schedules().add({.name = "cosine", .about = "again", .rate = nullptr}); },
                   {"two schedules named 'cosine'"});
}

TEST(Schedule, RefusesAnUnknownName) {
  EXPECT_NE(message_of<BadInput>([] {
              Schedule({.name = "cosin"}, 0.1, 10, 10);
            }).find("did you mean 'cosine'"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::optim
