// What `lockstep train` and `lockstep run` promise of many workers, on a network with BatchNorm and
// on data small enough to train in a second.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "cli/small_training.h"
#include "expect_error.h"
#include "lockstep_command.h"
#include "run/events.h"
#include "scoped_variable.h"
#include "temporary_folder.h"

namespace lockstep::cli {
namespace {

class Workers : public ::testing::Test {
 protected:
  Workers() { write_images(folder_.path(), 60); }

  Words train(const std::string& out, const Words& flags) const {
    Words words = {"--shards", "6", "--epochs", "2"};
    words.insert(words.end(), flags.begin(), flags.end());
    return train_on(folder_.path(), out, words);
  }

  static std::string digest(const Words& words) {
    const CommandResult outcome = lockstep_command(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    if (outcome.exit_code != 0) return "";
    return nlohmann::json::parse(outcome.out).at("model_sha256");
  }

  TemporaryFolder folder_;
};

TEST_F(Workers, OfAnyNumberEndWithTheSameModel) {
  const std::string alone = digest(train("1", {}));
  for (const char* workers : {"2", "3", "4", "6"})
    EXPECT_EQ(digest(train(workers, {"--workers", workers})), alone) << workers << " workers";
}

TEST_F(Workers, OfAnyNumberEndEarlyAfterTheSameEpochOnMixedSamples) {
  const auto end = [&](const std::string& workers, const Words& more) {
    Words flags = {"--workers", workers,
                   "--set",     "train.epochs=20",
                   "--set",     "train.patience=2",
                   "--set",     "data.validation_fraction=0.2",
                   "--set",     "data.mixup=0.3",
                   "--set",     "checkpoint.keep=best"};
    flags.insert(flags.end(), more.begin(), more.end());
    const CommandResult outcome = lockstep_command(train(workers, flags));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out);
  };
  const nlohmann::json alone = end("1", {});
  EXPECT_EQ(alone["ended_early"], true);
  EXPECT_LT(alone["epochs"], 20);
  const nlohmann::json three = end("3", {"--elastic"});
  for (const char* key : {"model_sha256", "steps", "best", "validation_loss", "test_loss"})
    EXPECT_EQ(three[key], alone[key]) << key;
  EXPECT_EQ(read_file(folder_ / "3/best.safetensors"), read_file(folder_ / "1/best.safetensors"));
}

TEST_F(Workers, EndWithTheSameModelOverAnyTransportAndByAnyAlgorithm) {
  const std::string shm = digest(train("shm", {"--workers", "3"}));
  EXPECT_EQ(digest(train("tcp", {"--workers", "3", "--transport", "tcp"})), shm);
  EXPECT_EQ(digest(train("tree", {"--workers", "3", "--algorithm", "tree"})), shm);
}

TEST_F(Workers, GoOnWithARunThatOthersBegan) {
  const std::string whole = digest(train("whole", {}));
  const CommandResult stopped =
      lockstep_command(train("run", {"--workers", "2", "--stop-at-step", "3"}));
  ASSERT_EQ(stopped.exit_code, 0) << stopped.err;
  EXPECT_EQ(digest({"train", "--resume", "--json", "--workers", "3", "--out",
                    (folder_ / "run").string()}),
            whole);
}

TEST_F(Workers, ThatALauncherStartedGoOnWithARunToo) {
  const std::string whole = digest(train("whole", {}));
  ASSERT_EQ(lockstep_command(train("run", {"--stop-at-step", "3"})).exit_code, 0);
  const Words resume = {"train", "--resume", "--json", "--out", (folder_ / "run").string()};
  for (const bool finished : {false, true}) {  // the second time there is nothing left to do
    const ScopedVariable key("LOCKSTEP_JOB_KEY", "k");
    const ScopedVariable port("MASTER_PORT", std::to_string(20'000 + getpid() % 20'000));
    const ScopedVariable world("WORLD_SIZE", "2");
    const ScopedVariable rank("RANK", "0");
    Child first(resume);
    setenv("RANK", "1", 1);
    Child second(resume);
    const CommandResult told = first.wait();
    EXPECT_EQ(second.wait().exit_code, 0) << finished;
    ASSERT_EQ(told.exit_code, 0) << told.err;
    EXPECT_EQ(nlohmann::json::parse(told.out).at("model_sha256"), whole);
  }
}

TEST_F(Workers, OfAnyNumberGiveTheSameModelWithEveryKeyOfGradients) {
  std::set<std::string> models;
  const std::vector<std::string> settings = {"train.compress=bf16", "train.compress=f16",
                                             "train.accumulate=2", "optimizer.clip_norm=0.1"};
  for (const std::string& setting : settings) {
    const Words set = {"--set", setting};
    const std::string alone = digest(train(setting + "-1", set));
    models.insert(alone);
    EXPECT_EQ(digest(train(setting + "-3", joined({"--workers", "3"}, set))), alone) << setting;
    const std::string cut = setting + "-cut";
    ASSERT_EQ(lockstep_command(train(cut, joined({"--stop-at-step", "3"}, set))).exit_code, 0);
    EXPECT_EQ(digest({"train", "--resume", "--json", "--workers", "2", "--out",
                      (folder_ / cut).string()}),
              alone)
        << setting << ", stopped and resumed";
  }
  EXPECT_EQ(models.size(), settings.size()) << "each key has an effect";
}

TEST_F(Workers, WithPowerSgdNeedOneShardEach) {
  const Words power = {"--workers", "2", "--set", "train.compress=power_sgd"};
  EXPECT_TRUE(refuses(train("a", power), "there are 2 workers and 6 shards"));
  const Words two = joined(power, {"--set", "train.shards=2"});
  EXPECT_EQ(digest(train("b", two)), digest(train("c", two)));
  EXPECT_EQ(lockstep_command(train("pieces", joined(two, {"--accumulate", "3"}))).exit_code, 0);
  const CommandResult stopped = lockstep_command(train("d", joined(two, {"--stop-at-step", "3"})));
  ASSERT_EQ(stopped.exit_code, 0);
  EXPECT_TRUE(has(stopped.err, " --workers 2 --force")) << stopped.err;
  const Words resume = {"train", "--resume", "--workers", "2", "--out", (folder_ / "d").string()};
  EXPECT_TRUE(refuses(resume, "checkpoints do not contain"));
  EXPECT_EQ(lockstep_command(joined(resume, {"--force"})).exit_code, 0);
}

TEST_F(Workers, AreRefusedWhereThereAreMoreThanShards) {
  const CommandResult outcome = lockstep_command(train("many", {"--workers", "7"}));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("--workers 7: the recipe has 6 shards"), std::string::npos)
      << outcome.err;
}

size_t count_of(const std::string& part, const std::string& text) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::vector<run::Json> events_of(const std::filesystem::path& run) {
  return run::read_events(run / "events.jsonl");
}

// The last event of a kind.
run::Json last_event(const std::filesystem::path& run, const std::string& kind) {
  run::Json last;
  for (const run::Json& event : events_of(run))
    if (event["event"] == kind) last = event;
  return last;
}

bool comes_to_say(const Child& child, const std::string& text) {
  const Deadline deadline = Deadline::in(30);
  while (!deadline.passed()) {
    if (has(child.err(), text)) return true;
    usleep(10'000);
  }
  return false;
}

TEST_F(Workers, AreToldOnceWhatIsWrongForAllOfThem) {
  const CommandResult shards = lockstep_command(train("many", {"--workers", "7"}));
  EXPECT_EQ(count_of("--workers 7: the recipe has 6 shards", shards.err), 1U) << shards.err;
  EXPECT_TRUE(has(shards.err, "--shards")) << shards.err;
  const CommandResult batch =
      lockstep_command(train("large", {"--workers", "2", "--set", "train.batch=600"}));
  EXPECT_EQ(batch.exit_code, 2);
  EXPECT_EQ(count_of("batch 600", batch.err), 1U) << batch.err;
  EXPECT_EQ(count_of("\n", batch.err), 1U) << batch.err;
}

TEST_F(Workers, ThatWaitForOthersCanBeInterrupted) {
  const ScopedVariable key("LOCKSTEP_JOB_KEY", "k");
  const ScopedVariable port("MASTER_PORT", std::to_string(20'000 + getpid() % 20'000));
  const ScopedVariable world("WORLD_SIZE", "2");
  for (const int signal : {SIGINT, SIGTERM}) {
    const ScopedVariable rank("RANK", "0");
    Child first(train("first", {}));
    ASSERT_TRUE(comes_to_say(first, "waiting for rank 1"));
    const Stopwatch watch;
    kill(first.pid(), signal);
    const CommandResult outcome = first.wait();
    EXPECT_LT(watch.seconds(), 5);
    EXPECT_EQ(outcome.exit_code, 128 + signal);
    EXPECT_TRUE(has(outcome.err, "interrupted while waiting for rank 1")) << outcome.err;
  }
}

TEST_F(Workers, OfAFlagAreNotForgottenUnderALauncher) {
  const ScopedVariable rank("RANK", "0");
  const ScopedVariable world("WORLD_SIZE", "2");
  EXPECT_TRUE(refuses(train("run", {"--workers", "4"}), "--workers 4"));
  EXPECT_TRUE(refuses(train("run", {"--nnodes", "2", "--node-rank", "1", "--master", "n:1"}),
                      "--node-rank 1"));
}

TEST_F(Workers, AreNotLookedForInABatchScriptOfSlurm) {
  const ScopedVariable rank("SLURM_PROCID", "0");
  const ScopedVariable tasks("SLURM_NTASKS", "4");
  const ScopedVariable job("SLURM_JOB_ID", "7");
  digest(train("run", {"--workers", "2"}));
  EXPECT_EQ(last_event(folder_ / "run", "end")["workers"], 2);
}

TEST_F(Workers, OnANodeThatIsNotThereAreRefused) {
  EXPECT_TRUE(refuses(train("run", {"--node-rank", "3", "--master", "nosuch:1"}), "--node-rank 3"));
  EXPECT_TRUE(
      refuses(train("run", {"--nnodes", "2", "--master", "nosuch:1"}), "--node-rank 0 to 1"));
}

TEST_F(Workers, BeginAgainWithAWarningWhereThereIsNoCheckpoint) {
  const CommandResult stopped = lockstep_command(train("run", {"--stop-at-step", "1"}));
  ASSERT_EQ(stopped.exit_code, 0) << stopped.err;
  std::filesystem::remove_all(folder_ / "run/checkpoints");
  const CommandResult outcome =
      lockstep_command({"train", "--resume", "--out", (folder_ / "run").string()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "no checkpoint to resume from")) << outcome.err;
  EXPECT_TRUE(has(last_event(folder_ / "run", "warning")["message"], "at step 0"));
}

TEST_F(Workers, SayThatTheyAreOthersThanBefore) {
  ASSERT_EQ(lockstep_command(train("run", {"--workers", "2", "--stop-at-step", "1"})).exit_code, 0);
  const CommandResult outcome =
      lockstep_command({"train", "--resume", "--out", (folder_ / "run").string()});
  EXPECT_TRUE(has(outcome.err, "on 1 worker (2 before: --resume does not restore --workers)"))
      << outcome.err;
  EXPECT_EQ(last_event(folder_ / "run", "resume")["workers_before"], 2);
}

TEST_F(Workers, ThatFailSayHowToGoOnAndLeaveItInTheStory) {
  const Words diverges = {"--set", "model.name=mlp",  "--lr",  "1e6",
                          "--set", "train.epochs=50", "--set", "checkpoint.every_steps=1"};
  for (const char* workers : {"1", "2"}) {
    Words flags = diverges;
    flags.insert(flags.end(), {"--workers", workers});
    const CommandResult outcome = lockstep_command(train(workers, flags));
    EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
    const std::string out = (folder_ / workers).string();
    EXPECT_TRUE(has(outcome.err, "resume with:  lockstep train --resume --out " + out +
                                     (std::string(workers) == "1" ? "\n" : " --workers 2\n")))
        << outcome.err;
    EXPECT_EQ(events_of(out).back()["event"], "failure");
    EXPECT_FALSE(events_of(out).back()["message"].get<std::string>().empty());
  }
}

TEST_F(Workers, ThatAreKilledLeaveItInTheStoryToo) {
  for (const bool zero : {false, true}) {
    const std::string out = zero ? "zero" : "plain";
    Words flags = {"--workers",         "2",     "--set",
                   "train.epochs=1000", "--set", "checkpoint.every_steps=1"};
    if (zero) flags.emplace_back("--zero");
    Child child(train(out, flags));
    ASSERT_TRUE(comes_to_say(child, "step "));
    const std::string family = fmt::format("/proc/{0}/task/{0}/children", child.pid());
    std::ifstream children(family);
    int guardian = 0;
    int rank_0 = 0;
    children >> guardian >> rank_0;
    kill(rank_0, SIGKILL);
    const CommandResult outcome = child.wait();
    EXPECT_EQ(outcome.exit_code, 137);
    EXPECT_TRUE(has(outcome.err, "resume with:")) << outcome.err;
    // Only where --elastic is possible.
    EXPECT_EQ(has(outcome.err, "with --elastic, the other workers go on"), !zero) << outcome.err;
    EXPECT_TRUE(has(events_of(folder_ / out).back()["message"], "was killed by signal 9"));
  }
}

TEST_F(Workers, ThatFailBeforeACheckpointSayHowToStartAgain) {
  const Words diverges = {"--set", "model.name=mlp", "--lr", "1e6", "--set", "train.epochs=50"};
  const CommandResult outcome = lockstep_command(train("run", diverges));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "has no checkpoint yet: to start again, delete it")) << outcome.err;
  EXPECT_TRUE(refuses(train("run", {"--lr", "0.1"}),
                      "contains a run that ended before its first checkpoint; delete the folder, "
                      "or choose another one with --out"));
}

TEST_F(Workers, ThatStopByCtrlCHaveNotFailed) {
  Child child(train("run", {"--workers", "2", "--set", "train.epochs=1000"}));
  ASSERT_TRUE(comes_to_say(child, "step "));
  kill(child.pid(), SIGINT);
  const CommandResult outcome = child.wait();
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_TRUE(has(outcome.err, "resume with:")) << outcome.err;
  EXPECT_FALSE(has(outcome.err, "exit code")) << outcome.err;
  EXPECT_EQ(events_of(folder_ / "run").back()["event"], "stopped");
}

TEST_F(Workers, AreNamedWithHowTheyTalk) {
  const CommandResult outcome = lockstep_command(train("run", {"--workers", "2"}));
  EXPECT_TRUE(has(outcome.err, "2 workers over shm, all-reduce direct; ")) << outcome.err;
  const auto start = last_event(folder_ / "run", "start");
  EXPECT_EQ(start["algorithm"], "direct");
  EXPECT_EQ(start["nodes"], 1);
  const CommandResult tree = lockstep_command(
      train("tree", {"--workers", "2", "--algorithm", "tree", "--transport", "tcp"}));
  EXPECT_TRUE(has(tree.err, "2 workers over tcp, all-reduce tree; ")) << tree.err;
}

TEST_F(Workers, AreCountedTogetherInTheBytesTheySent) {
  digest(train("run", {"--workers", "3", "--transport", "tcp", "--algorithm", "tree", "--set",
                       "log.every_steps=1"}));
  const auto of_rank_0 = last_event(folder_ / "run", "step")["bytes_sent"];
  const auto end = last_event(folder_ / "run", "end");
  EXPECT_GT(end["bytes_by_kind"]["gradients"], of_rank_0["gradients"]);
  int64_t sum = 0;
  for (const auto& [kind, bytes] : end["bytes_by_kind"].items()) sum += bytes.get<int64_t>();
  EXPECT_EQ(end["bytes_sent"], sum);
}

TEST_F(Workers, WithAnotherFolderThanRankZerosAreWarned) {
  const ScopedVariable key("LOCKSTEP_JOB_KEY", "k");
  const ScopedVariable port("MASTER_PORT", std::to_string(20'000 + getpid() % 20'000));
  const ScopedVariable world("WORLD_SIZE", "2");
  const ScopedVariable rank("RANK", "0");
  Child first(train("first", {}));
  setenv("RANK", "1", 1);
  Child second(train("second", {}));
  const CommandResult told = first.wait();
  EXPECT_EQ(second.wait().exit_code, 0);
  EXPECT_TRUE(
      has(told.err, "warning: --out " + (folder_ / "second").string() + " of rank 1 is ignored"))
      << told.err;
  EXPECT_EQ(events_of(folder_ / "first").front()["event"], "start");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "second"));
}

TEST_F(Workers, MayBeSilentForAsLongAsAsked) {
  digest(train("run", {"--workers", "2", "--silence", "60"}));
  EXPECT_TRUE(refuses(train("other", {"--silence", "0"}), "--silence 0: expected 1 to 1e6"));
}

TEST_F(Workers, MultiplyTheLearningRateOnlyWhenAsked) {
  const std::string plain = digest(train("plain", {"--workers", "2"}));
  const Words scale = {"--workers", "2", "--set", "optimizer.scale_lr_by_workers=true"};
  EXPECT_NE(digest(train("scaled", scale)), plain);
}

TEST(Run, StartsAProgramAsWorkersAndNamesTheOneThatFails) {
  const CommandResult well =
      lockstep_command({"run", "-n", "2", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE"});
  EXPECT_EQ(well.exit_code, 0) << well.err;
  EXPECT_NE(well.out.find("[1] 1 of 2\n"), std::string::npos) << well.out;

  const CommandResult ill = lockstep_command(
      {"run", "-n", "2", "--", "sh", "-c", "[ $RANK = 0 ] && sleep 60; echo broken >&2; exit 3"});
  EXPECT_EQ(ill.exit_code, 3);
  EXPECT_NE(ill.err.find("rank 1 ("), std::string::npos) << ill.err;
  EXPECT_NE(ill.err.find("ended with exit code 3; end of its stderr:\n  broken"), std::string::npos)
      << ill.err;
}

TEST(Run, RefusesWhatCannotBe) {
  EXPECT_NE(lockstep_command({"run", "-n", "2"}).err.find("no program given"), std::string::npos);
  EXPECT_NE(lockstep_command({"run", "-n", "0", "--", "true"}).err.find("--workers 0"),
            std::string::npos);
  EXPECT_NE(lockstep_command({"run", "--nnodes", "2", "--", "true"}).err.find("--master"),
            std::string::npos);
  EXPECT_TRUE(refuses({"run", "-n", "2", "ls", "/x"}, "lockstep run -n 2 -- ls /x"));
}

TEST(Run, OfAProgramThatCannotBeStartedEndsAsAShellDoes) {
  const CommandResult missing = lockstep_command({"run", "-n", "2", "--", "/no/such/program"});
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_EQ(missing.err,
            "lockstep: /no/such/program: cannot be started: No such file or directory\n");
  EXPECT_EQ(lockstep_command({"run", "--", "no-such-program"}).exit_code, 127);
  EXPECT_EQ(lockstep_command({"run", "--", "/etc/passwd"}).exit_code, 126);
  EXPECT_EQ(lockstep_command({"run", "--", "/etc"}).exit_code, 126);
}

}  // namespace
}  // namespace lockstep::cli
