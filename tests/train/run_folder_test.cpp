#include "train/run_folder.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "lockstep/error.h"
#include "temporary_folder.h"

namespace lockstep::train {
namespace {

TEST(RunFolder, RefusesAFolderThatHoldsAnotherRun) {
  TemporaryFolder folder;
  { RunFolder::create(folder / "run", {}); }
  EXPECT_NE(message_of<BadInput>([&] { RunFolder::create(folder / "run", {}); }).find("--resume"),
            std::string::npos);
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
}  // namespace lockstep::train
