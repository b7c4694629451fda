#include "train/failure.h"

#include <gtest/gtest.h>

#include "temporary_folder.h"
#include "train/short_runs.h"

namespace lockstep::train {
namespace {

TEST(Failure, IsTheLastOfARunsStory) {
  TemporaryFolder folder;
  const std::filesystem::path out = folder / "run";
  { const RunFolder run = RunFolder::create(out, tiny_recipe(folder)); }
  EXPECT_EQ(record_failure(out, "the disk broke"), Remains::nothing);
  const auto events = observe::read_events(out / "events.jsonl");
  EXPECT_EQ(events.back()["event"], "failure");
  EXPECT_EQ(events.back()["message"], "the disk broke");
}

TEST(Failure, SaysWhetherThereIsACheckpointToGoOnFrom) {
  TemporaryFolder folder;
  const std::filesystem::path out = folder / "run";
  train(tiny_recipe(folder), out, {.stop_at_step = 2});
  observe::EventLog(out / "events.jsonl").write({{"event", "start"}});
  EXPECT_EQ(record_failure(out, "killed"), Remains::checkpoint);
}

TEST(Failure, IsNotToldOfARunThatIsOverOrHeldByAnother) {
  TemporaryFolder folder;
  const std::filesystem::path out = folder / "run";
  train(tiny_recipe(folder), out);
  EXPECT_EQ(record_failure(out, "too late"), Remains::nothing);
  EXPECT_EQ(observe::read_events(out / "events.jsonl").back()["event"], "end");
  const std::filesystem::path held = folder / "held";
  const RunFolder run = RunFolder::create(held, tiny_recipe(folder));
  EXPECT_EQ(record_failure(held, "not ours"), Remains::nothing);
  EXPECT_FALSE(std::filesystem::exists(held / "events.jsonl"));
  EXPECT_EQ(record_failure(folder / "nowhere", "nothing there"), Remains::nothing);
}

}  // namespace
}  // namespace lockstep::train
