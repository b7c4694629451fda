#include "run/run_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "child_process.h"
#include "expect_error.h"
#include "lockstep/error.h"
#include "temporary_folder.h"

namespace lockstep::run {
namespace {

TEST(RunFolder, RefusesAFolderThatHoldsAnotherRun) {
  TemporaryFolder folder;
  {
    RunFolder::create(folder / "run", {});
  }
  EXPECT_NE(message_of<BadInput>([&] { RunFolder::create(folder / "run", {}); }).find("--resume"),
            std::string::npos);
}

TEST(RunFolder, RefusesAFolderThatHoldsSomebodysCheckpoints) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "run/checkpoints");
  expect_bad_input([&] { RunFolder::create(folder / "run", {}); }, {"contains a run already"});
}

TEST(RunFolder, ClaimsAnotherNumberForEveryRun) {
  TemporaryFolder folder;
  EXPECT_EQ(claim_run_folder(folder / "runs", "a"), folder / "runs/a-1");
  EXPECT_EQ(claim_run_folder(folder / "runs", "a"), folder / "runs/a-2");
}

TEST(RunFolder, LetsOnlyOneProcessWriteAndNamesIt) {
  TemporaryFolder folder;
  const RunFolder held = RunFolder::create(folder / "run", {});
  expect_bad_input([&] { RunFolder::open(folder / "run", 0.1); },
                   {"another process is writing this run", fmt::format("pid {} on ", getpid()),
                    "run_test", "stop it"});
}

TEST(RunFolder, WaitsForAProcessThatEnds) {
  TemporaryFolder folder;
  {
    RunFolder::create(folder / "run", {});
  }
  ChildProcess holder([&](const ChildProcess::Say& say) {
    const RunFolder held = RunFolder::open(folder / "run");
    say("held");
    poll(nullptr, 0, 300);
  });
  ASSERT_EQ(holder.line(), "held");
  EXPECT_TRUE(RunFolder::open(folder / "run", 60).goes_on());
}

TEST(RunFolder, RefusesToResumeWhereThereIsNoRun) {
  TemporaryFolder folder;
  EXPECT_THROW(RunFolder::open(folder / "nothing"), BadInput);
}

}  // namespace
}  // namespace lockstep::run
