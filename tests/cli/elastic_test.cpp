// What `lockstep train --elastic` promises: the model of an undisturbed run, whoever comes and
// goes.
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "cli/small_training.h"
#include "lockstep_command.h"
#include "net/socket.h"
#include "run/events.h"
#include "scoped_variable.h"
#include "temporary_folder.h"

namespace lockstep::cli {
namespace {

class Elastic : public ::testing::Test {
 protected:
  Elastic() { write_images(folder_.path(), 96); }

  std::string run(const std::string& name) const { return (folder_ / name).string(); }

  Words train(const std::string& out, const Words& flags, int steps = 80) const {
    Words words = {"--shards", "4", "--steps", std::to_string(steps), "--set", "log.every_steps=1"};
    words.insert(words.end(), flags.begin(), flags.end());
    return train_on(folder_.path(), out, words);
  }

  /// The number of workers that the run has told last; waits until it is `workers`.
  bool comes_to_have(const std::string& out, int workers) const {
    const Deadline deadline = Deadline::in(30);
    while (!deadline.passed()) {
      int64_t now = 0;
      if (std::filesystem::exists(folder_ / out / "events.jsonl"))
        for (const auto& event : run::read_events(folder_ / out / "events.jsonl"))
          now = event.value("workers", now);
      if (now == workers) return true;
      usleep(5'000);
    }
    return false;
  }

  static std::string digest(const CommandResult& outcome) {
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.exit_code == 0 ? nlohmann::json::parse(outcome.out).at("model_sha256") : "";
  }

  TemporaryFolder folder_;
};

int pid_of_rank(const std::string& run, int rank) {
  const std::string listed = lockstep_command({"workers", run}).out;
  const size_t at = listed.find("rank " + std::to_string(rank));
  return at == std::string::npos ? 0 : std::stoi(listed.substr(listed.find("pid ", at) + 4));
}

TEST_F(Elastic, RunsGoOnWhenAnyWorkerIsKilled) {
  const std::string undisturbed = digest(lockstep_command(train("whole", {})));
  for (const int rank : {0, 1}) {
    const std::string name = "killed-" + std::to_string(rank);
    Child child(train(name, {"--elastic", "--workers", "2"}));
    ASSERT_TRUE(comes_to_have(name, 2));
    const int victim = pid_of_rank(run(name), rank);
    ASSERT_GT(victim, 0);
    kill(victim, SIGKILL);
    const CommandResult outcome = child.wait();
    EXPECT_EQ(digest(outcome), undisturbed) << "rank " << rank;
    EXPECT_NE(outcome.err.find("was killed by signal 9"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("; continuing with "), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(folder_ / name / "control.json"));
  }
}

TEST_F(Elastic, RunsCanBeGivenMoreAndFewerWorkers) {
  constexpr int kSteps = 300;  // each command takes a while
  const std::string undisturbed = digest(lockstep_command(train("whole", {}, kSteps)));
  Child child(train("run", {"--elastic", "--workers", "2"}, kSteps));
  ASSERT_TRUE(comes_to_have("run", 2));
  EXPECT_TRUE(refuses({"workers", run("run"), "--set", "5"}, "--set 5: expected 1 to 4 workers"));
  EXPECT_EQ(lockstep_command({"workers", run("run"), "--set", "3"}).exit_code, 0);
  EXPECT_TRUE(comes_to_have("run", 3));
  EXPECT_EQ(lockstep_command({"workers", run("run"), "--set", "1"}).exit_code, 0);
  EXPECT_TRUE(comes_to_have("run", 1));
  EXPECT_EQ(digest(child.wait()), undisturbed);
}

TEST_F(Elastic, RunsCanBeJoinedByWhoHasTheSameRecipeAndTheKey) {
  constexpr int kSteps = 600;  // joining takes a while
  const std::string undisturbed = digest(lockstep_command(train("whole", {}, kSteps)));
  const ScopedVariable key("LOCKSTEP_JOB_KEY", "k");
  const std::string address = "127.0.0.1:" + std::to_string(net::free_port());
  Child child(train("run", {"--elastic", "--max-workers", "2", "--master", address}, kSteps));
  ASSERT_TRUE(comes_to_have("run", 1));
  EXPECT_TRUE(refuses(train("other", {"--join", address, "--seed", "2"}, kSteps), "train.seed"));
  {
    const ScopedVariable other_key("LOCKSTEP_JOB_KEY", "another");
    EXPECT_TRUE(refuses(train("other", {"--join", address}, kSteps), "key"));
  }
  Child joiner(train("joiner", {"--join", address}, kSteps));
  EXPECT_TRUE(comes_to_have("run", 2));
  EXPECT_TRUE(refuses(train("third", {"--join", address}, kSteps), "--max-workers"));
  const CommandResult outcome = child.wait();
  EXPECT_EQ(digest(outcome), undisturbed) << outcome.err;
  EXPECT_EQ(joiner.wait().exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "joiner"));
}

TEST_F(Elastic, RunsStopByCtrlCWithACheckpointAndCanBeResumed) {
  const std::string undisturbed = digest(lockstep_command(train("whole", {})));
  Child child(train("run", {"--elastic", "--workers", "2"}));
  ASSERT_TRUE(comes_to_have("run", 2));
  kill(child.pid(), SIGINT);
  const CommandResult stopped = child.wait();
  EXPECT_EQ(stopped.exit_code, 130) << stopped.err;
  EXPECT_NE(
      stopped.err.find("lockstep train --resume --out " + run("run") + " --workers 2 --elastic\n"),
      std::string::npos)
      << stopped.err;
  EXPECT_EQ(digest(lockstep_command({"train", "--resume", "--elastic", "--workers", "3", "--json",
                                     "--out", run("run")})),
            undisturbed);
}

TEST_F(Elastic, RunsStoppedWhileTheyRecoverLoseNoStep) {
  Child child(train("run", {"--elastic", "--workers", "2"}, 250));
  ASSERT_TRUE(comes_to_have("run", 2));
  kill(pid_of_rank(run("run"), 1), SIGKILL);
  kill(child.pid(), SIGINT);
  const CommandResult stopped = child.wait();
  EXPECT_EQ(stopped.exit_code, 130) << stopped.err;
  int64_t steps = 0;
  for (const auto& event : run::read_events(folder_ / "run/events.jsonl")) {
    if (event["event"] == "step") steps = event["step"];
    if (event["event"] == "stopped") {
      EXPECT_GE(event["step"].get<int64_t>(), steps);
    }
  }
  EXPECT_NE(stopped.err.find("stopped at step"), std::string::npos) << stopped.err;
}

TEST_F(Elastic, RunsThatAreInterruptedTwiceSayHowToGoOnAllTheSame) {
  Child child(
      train("run", {"--elastic", "--workers", "2", "--set", "checkpoint.every_steps=1"}, 400));
  ASSERT_TRUE(comes_to_have("run", 2));
  usleep(500'000);
  kill(child.pid(), SIGINT);
  kill(child.pid(), SIGTERM);
  const CommandResult outcome = child.wait();
  EXPECT_EQ(outcome.exit_code, 130) << outcome.err;
  EXPECT_NE(outcome.err.find("lockstep train --resume --out"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("unexpected"), std::string::npos) << outcome.err;
}

TEST_F(Elastic, RunsLeaveTheFolderOfAnotherRunAlone) {
  ASSERT_EQ(lockstep_command(train("run", {"--stop-at-step", "3"})).exit_code, 0);
  const std::string before = read_file(folder_ / "run/events.jsonl");
  EXPECT_TRUE(refuses(train("run", {"--elastic", "--workers", "2"}), "contains a run already"));
  EXPECT_EQ(read_file(folder_ / "run/events.jsonl"), before);
}

TEST_F(Elastic, FailuresThatWouldHappenAgainEndTheRun) {
  const CommandResult outcome = lockstep_command(
      train("run", {"--elastic", "--workers", "2", "--lr", "1e6", "--set", "model.name=mlp"}));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("training diverged"), std::string::npos) << outcome.err;
}

TEST_F(Elastic, FlagsThatDoNotFitAreRefused) {
  EXPECT_TRUE(refuses(train("run", {"--min-workers", "2"}), "--min-workers: only with --elastic"));
  EXPECT_TRUE(refuses(train("run", {"--elastic", "--max-workers", "9"}), "--max-workers 9"));
  EXPECT_TRUE(refuses(train("run", {"--elastic", "--min-workers", "2"}), "--workers 1"));
  EXPECT_TRUE(refuses(
      train("run", {"--join", "h:1", "--nnodes", "2", "--node-rank", "1", "--master", "h:1"}),
      "--join h:1"));
  EXPECT_TRUE(refuses(train("run", {"--elastic", "--workers", "2", "--algorithm", "ring"}),
                      "--algorithm ring"));
  EXPECT_TRUE(refuses(train("run", {"--join", "h:1"}), "--join: set LOCKSTEP_JOB_KEY"));
  EXPECT_TRUE(refuses(train("run", {"--elastic", "--master", "127.0.0.1:1"}),
                      "--master: set LOCKSTEP_JOB_KEY"));
  EXPECT_TRUE(refuses({"workers", folder_.path().string()}, "no elastic run is active"));
  EXPECT_TRUE(refuses({"workers", "runs/nope"}, "runs/nope: no such folder"));
  const ScopedVariable rank("RANK", "0");
  const ScopedVariable world("WORLD_SIZE", "2");
  EXPECT_TRUE(refuses(train("run", {"--elastic"}), "--elastic"));
}

TEST_F(Elastic, OrdersOfAdditionThatDependOnWorkersNeedForce) {
  EXPECT_TRUE(refuses(train("run", {"--workers", "2", "--algorithm", "ring"}), "--force"));
  const CommandResult forced =
      lockstep_command(train("run", {"--workers", "2", "--algorithm", "ring", "--force"}, 3));
  EXPECT_EQ(forced.exit_code, 0) << forced.err;
  EXPECT_NE(
      forced.err.find("the recipe alone does not reproduce this run: added by ring on 2 workers"),
      std::string::npos)
      << forced.err;
}

TEST_F(Elastic, AResumeWithAnEditedRecipeIsRefused) {
  ASSERT_EQ(lockstep_command(train("run", {"--stop-at-step", "3"})).exit_code, 0);
  std::string recipe = read_file(folder_ / "run/recipe.toml");
  recipe.replace(recipe.find("momentum = 0.9"), 14, "momentum = 0.8");
  write_file_atomically(folder_ / "run/recipe.toml", recipe);
  EXPECT_TRUE(
      refuses({"train", "--resume", "--out", run("run")}, "optimizer.momentum: 0.8, was 0.9"));
}

TEST_F(Elastic, AGuestThatIsAskedToStopLeavesAlone) {
  constexpr int kSteps = 250;
  const std::string undisturbed = digest(lockstep_command(train("whole", {}, kSteps)));
  const ScopedVariable key("LOCKSTEP_JOB_KEY", "k");
  const std::string address = "127.0.0.1:" + std::to_string(net::free_port());
  Child child(train("run", {"--elastic", "--master", address}, kSteps));
  ASSERT_TRUE(comes_to_have("run", 1));
  Child guest(train("guest", {"--join", address}, kSteps));
  ASSERT_TRUE(comes_to_have("run", 2));
  kill(guest.pid(), SIGINT);
  EXPECT_EQ(guest.wait().exit_code, 130);
  EXPECT_TRUE(comes_to_have("run", 1));
  EXPECT_EQ(digest(child.wait()), undisturbed);
}

TEST_F(Elastic, AGuestOfWhomSomeAreTooManyStaysWithTheOthers) {
  const ScopedVariable key("LOCKSTEP_JOB_KEY", "k");
  const std::string address = "127.0.0.1:" + std::to_string(net::free_port());
  Child child(train("run", {"--elastic", "--max-workers", "2", "--master", address}, 250));
  ASSERT_TRUE(comes_to_have("run", 1));
  Child guest(train("guest", {"--join", address, "--workers", "2"}, 250));
  EXPECT_TRUE(comes_to_have("run", 2));
  digest(child.wait());
  const CommandResult outcome = guest.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("--max-workers"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("joined the job as rank 1 of 2"), std::string::npos) << outcome.err;
}

TEST_F(Elastic, AResumeWithAnotherRecipeNeedsForce) {
  ASSERT_EQ(lockstep_command(train("run", {"--stop-at-step", "3"})).exit_code, 0);
  const Words resume = {"train", "--resume", "--out", run("run"), "--lr", "0.01", "--steps", "6"};
  EXPECT_TRUE(refuses(resume, "--force"));
  Words forced = resume;
  forced.emplace_back("--force");
  const CommandResult outcome = lockstep_command(forced);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("the recipe alone does not reproduce this run: "), std::string::npos)
      << outcome.err;
  EXPECT_NE(lockstep_command({"train", "--resume", "--out", run("run"), "--print-recipe"})
                .out.find("lr = 0.01"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::cli
