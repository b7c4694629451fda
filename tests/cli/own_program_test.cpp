// What `lockstep run` shows of a user's own program that calls lockstep::init.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/deadline.h"
#include "expect_error.h"
#include "lockstep/error.h"
#include "lockstep_command.h"

namespace lockstep {
namespace {

std::vector<std::string> run_two(const std::string& deed) {
  return {"run", "-n", "2", "--", OWN_PROGRAM, deed};
}

// Whether the child's stdout has `text` before it ends.
bool shows(const Child& child, const std::string& text) {
  const Deadline deadline = Deadline::in(30);
  while (!deadline.passed()) {
    if (has(child.out(), text)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

TEST(OwnProgram, HasItsLinesShownWhileItRuns) {
  Child child(run_two("linger"));
  EXPECT_TRUE(shows(child, "[1] rank 1 is here\n"));
  kill(child.pid(), SIGTERM);
  EXPECT_EQ(child.wait().exit_code, 143);
}

TEST(OwnProgram, LosesNoLineWhenItAborts) {
  const CommandResult outcome = lockstep_command({"run", "--", OWN_PROGRAM, "abort"});
  EXPECT_EQ(outcome.exit_code, 134) << outcome.err;
  EXPECT_EQ(outcome.out, "[0] rank 0 is here\n");
}

TEST(OwnProgram, ThatFailsByAnUncaughtErrorIsNamedAndNotTheOthers) {
  const CommandResult outcome = lockstep_command(run_two("fail"));
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "[1] lockstep: rank 1: seven is too many\n")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "lockstep: rank 1 (")) << outcome.err;
  EXPECT_FALSE(has(outcome.err, "terminate called")) << outcome.err;
}

TEST(OwnProgram, ThatLeavesWhileOthersWaitForItIsNamed) {
  const CommandResult outcome = lockstep_command(run_two("leave"));
  EXPECT_EQ(outcome.exit_code, kLostOthers) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "lockstep: rank 1 (")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "ended with exit code 0 while other workers still needed it"))
      << outcome.err;
}

TEST(OwnProgram, ThatNeverComesToTheMeetingEndsTheJobAtOnce) {
  const Stopwatch watch;
  const CommandResult outcome = lockstep_command(run_two("stay-away"));
  EXPECT_LT(watch.seconds(), 30);  // a meeting lasts 60
  EXPECT_EQ(outcome.exit_code, kLostOthers) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "ended with exit code 0 while other workers still needed it"))
      << outcome.err;
}

TEST(OwnProgram, ThatEndsWellIsNoFailure) {
  const CommandResult outcome = lockstep_command(run_two("end"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
}

TEST(OwnProgram, ThatTrainsAPipelinePrintsTheSameForAnyNumberOfStages) {
  const auto printed = [](const std::string& workers) {
    const CommandResult outcome = lockstep_command({"run", "-n", workers, "--", PIPELINE_EXAMPLE});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  };
  const std::string alone = printed("1");
  EXPECT_TRUE(has(alone, "sum of the model")) << alone;
  EXPECT_EQ(printed("2"), alone);
  EXPECT_EQ(printed("3"), alone);
}

}  // namespace
}  // namespace lockstep
