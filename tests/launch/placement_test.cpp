#include "launch/placement.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "scoped_variable.h"

namespace lockstep::launch {
namespace {

TEST(Placement, GivesEveryNodeItsOwnRanks) {
  const ScopedVariable key("LOCKSTEP_JOB_KEY", "k");
  const auto jobs = jobs_here(
      {.asked_workers = 2, .asked_nodes = 3, .asked_node_rank = 1, .master = "node0:1234"});
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].rank, 2);
  EXPECT_EQ(jobs[1].rank, 3);
  EXPECT_EQ(jobs[1].world, 6);
  EXPECT_EQ(jobs[1].master_host, "node0");
  EXPECT_EQ(jobs[1].master_port, 1234);
}

TEST(Placement, OnSeveralNodesMustSayWhichThisIs) {
  expect_bad_input([] { check({.asked_nodes = 2, .master = "node0:1"}); },
                   {"--nnodes 2", "--node-rank 0 to 1"});
  check({.asked_nodes = 2, .asked_node_rank = 0, .master = "node0:1"});
}

TEST(Placement, OnANodeThatIsNotThereIsRefused) {
  expect_bad_input([] { check({.asked_node_rank = 3, .master = "nosuch:1"}); },
                   {"--node-rank 3", "--nnodes N"});
}

TEST(Placement, MustNotContradictTheLauncherOfThisProcess) {
  const Job launched{.rank = 3, .world = 4, .launcher = "Slurm"};
  expect_bad_input([&] { check_against({.asked_workers = 2}, launched); },
                   {"--workers 2 --nnodes 1", "Slurm", "rank 3 of 4"});
  expect_bad_input(
      [&] {
        check_against({.asked_workers = 2, .asked_nodes = 2, .asked_node_rank = 0}, launched);
      },
      {"--node-rank 0"});
  expect_bad_input([&] { check_against({.master = "node1:1"}, launched); }, {"--master node1:1"});
  check_against({}, launched);
  check_against({.asked_workers = 4}, launched);
  check_against({.asked_workers = 2, .asked_nodes = 2, .asked_node_rank = 1}, launched);
}

}  // namespace
}  // namespace lockstep::launch
