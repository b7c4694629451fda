#include "run/run_folder.h"

#include <gtest/gtest.h>

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

TEST(RunFolder, LetsOnlyOneProcessWrite) {
  TemporaryFolder folder;
  const RunFolder held = RunFolder::create(folder / "run", {});
  EXPECT_NE(message_of<BadInput>([&] { RunFolder::open(folder / "run"); }).find("another process"),
            std::string::npos);
}

TEST(RunFolder, RefusesToResumeWhereThereIsNoRun) {
  TemporaryFolder folder;
  EXPECT_THROW(RunFolder::open(folder / "nothing"), BadInput);
}

}  // namespace
}  // namespace lockstep::run
