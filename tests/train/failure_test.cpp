#include <gtest/gtest.h>

#include "temporary_folder.h"
#include "train/short_runs.h"

namespace lockstep::train {
namespace {

TEST(Failure, IsTheLastEventOfARun) {
  TemporaryFolder folder;
  const std::filesystem::path out = folder / "run";
  {
    const run::RunFolder run = run::RunFolder::create(out, tiny_recipe(folder));
  }
  EXPECT_EQ(run::record_failure(out, "the disk broke"), run::Remains::no_checkpoint);
  const auto events = run::read_events(out / "events.jsonl");
  EXPECT_EQ(events.back()["event"], "failure");
  EXPECT_EQ(events.back()["message"], "the disk broke");
}

TEST(Failure, SaysWhetherThereIsACheckpointToGoOnFrom) {
  TemporaryFolder folder;
  const std::filesystem::path out = folder / "run";
  train(tiny_recipe(folder), out, {.stop_at_step = 2});
  run::EventLog(out / "events.jsonl").write({{"event", "start"}});
  EXPECT_EQ(run::record_failure(out, "killed"), run::Remains::checkpoint);
}

TEST(Failure, IsNotToldOfARunThatIsOverOrHeldByAnother) {
  TemporaryFolder folder;
  const std::filesystem::path out = folder / "run";
  train(tiny_recipe(folder), out);
  EXPECT_EQ(run::record_failure(out, "too late"), run::Remains::nothing);
  EXPECT_EQ(run::read_events(out / "events.jsonl").back()["event"], "end");
  const std::filesystem::path held = folder / "held";
  const run::RunFolder run = run::RunFolder::create(held, tiny_recipe(folder));
  EXPECT_EQ(run::record_failure(held, "not ours"), run::Remains::nothing);
  EXPECT_FALSE(std::filesystem::exists(held / "events.jsonl"));
  EXPECT_EQ(run::record_failure(folder / "nowhere", "nothing there"), run::Remains::nothing);
}

}  // namespace
}  // namespace lockstep::train
