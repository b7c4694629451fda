// Models, data sets and objectives of users' own, as users load them.
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "base/deadline.h"
#include "expect_error.h"
#include "lockstep_command.h"
#include "scoped_variable.h"
#include "temporary_folder.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

std::string library(const std::string& name) {
  return std::string(PLUGIN_FOLDER) + "/lib" + name + ".so";
}

class Plugin : public ::testing::Test {
 protected:
  Words train(const std::string& out, const Words& flags, const std::string& epochs = "3") const {
    return joined({"train", "--load", library("spirals"), "--data", "spirals", "--model",
                   "spiral-net", "--objective", "spiral", "--batch", "64", "--epochs", epochs,
                   "--set", "data.options.size=512", "--json", "--out", (folder_ / out).string()},
                  flags);
  }
  Words odd(const Words& flags) const {
    return joined(
        {"train", "--load", library("odd"), "--data", "numbers", "--model", "odd", "--objective",
         "odd", "--batch", "16", "--epochs", "2", "--json", "--out", (folder_ / "odd").string()},
        flags);
  }

  static nlohmann::json result(const CommandResult& ended) {
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    return ended.exit_code == 0 ? nlohmann::json::parse(ended.out) : nlohmann::json::object();
  }
  static std::string digest(const Words& words) {
    return result(lockstep_command(words)).value("model_sha256", "");
  }

  TemporaryFolder folder_;
};

TEST_F(Plugin, TrainsToTheSameModelOnAnyNumberOfWorkers) {
  const std::string alone = digest(train("1", {}));
  for (const char* workers : {"2", "3"})
    EXPECT_EQ(digest(train(workers, {"--workers", workers})), alone) << workers << " workers";
}

TEST_F(Plugin, MetricsAreInTheResultUnderTheirNames) {
  const nlohmann::json end = result(lockstep_command(train("run", {})));
  EXPECT_GT(end.value("test_side", 0.0), 0.4);
  EXPECT_EQ(end["metrics"]["side"], "percent");
  EXPECT_FALSE(end.contains("test_accuracy"));
}

TEST_F(Plugin, RunThatIsKilledIsResumedToTheSameModel) {
  const Words often = {"--set", "checkpoint.every_steps=2"};
  const std::string whole = digest(train("whole", often, "40"));
  Child child(train("run", often, "40"));
  const std::filesystem::path checkpoints = folder_ / "run/checkpoints";
  for (const Deadline deadline = Deadline::in(60); !deadline.passed();)
    if (std::filesystem::exists(checkpoints) && !std::filesystem::is_empty(checkpoints)) break;
  kill(child.pid(), SIGKILL);
  EXPECT_EQ(child.wait().exit_code, 128 + SIGKILL);
  const Words resume = {"train", "--resume", "--out", (folder_ / "run").string()};
  EXPECT_TRUE(refuses(resume, "--load"));
  EXPECT_EQ(digest(joined(resume, {"--load", library("spirals"), "--json"})), whole);
}

TEST_F(Plugin, ThatIsLinkedIntoAProgramNeedsNotBeLoaded) {
  const Words linked = {"train",
                        "--data",
                        "spirals",
                        "--model",
                        "spiral-net",
                        "--objective",
                        "spiral",
                        "--batch",
                        "64",
                        "--epochs",
                        "3",
                        "--set",
                        "data.options.size=512",
                        "--json",
                        "--workers",
                        "2",
                        "--out",
                        (folder_ / "linked").string()};
  EXPECT_EQ(result(Child(linked, Terminal::there, OWN_LOCKSTEP).wait()).value("model_sha256", ""),
            digest(train("loaded", {})));
}

TEST_F(Plugin, IsListed) {
  const CommandResult listed = lockstep_command({"list", "--load", library("spirals")});
  EXPECT_TRUE(has(listed.out, "spiral-net")) << listed.out << listed.err;
  EXPECT_TRUE(has(listed.out, "points on two spirals")) << listed.out;
  EXPECT_TRUE(has(listed.out, "classification")) << listed.out;
}

TEST_F(Plugin, IsRefusedForWhatIsWrongWithIt) {
  const auto load = [&](const std::string& file) {
    return Words{"train", "--load", file, "--out", (folder_ / "run").string()};
  };
  EXPECT_TRUE(refuses(load("nowhere.so"), "there is no such file"));
  folder_.write("text.so", "this is a text");
  EXPECT_TRUE(refuses(load((folder_ / "text.so").string()), "cannot be loaded"));
  EXPECT_TRUE(refuses(load(library("not_a_plugin")), "it has no LOCKSTEP_PLUGIN"));
  EXPECT_TRUE(refuses(load(library("other_build")), "was built for Lockstep 0.0.1"));
  EXPECT_TRUE(refuses(load(library("throws")), "no licence for this plugin"));
  EXPECT_TRUE(refuses(load(library("takes_a_name")), "two models named 'mlp'"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(Plugin, OptionsThatNobodyAskedForAreRefused) {
  EXPECT_TRUE(refuses(train("a", {"--set", "model.options.widht=3"}), "did you mean 'width'?"));
  EXPECT_TRUE(refuses(train("b", {"--set", "model.options.width=wide"}), "width"));
}

TEST_F(Plugin, ModelMayHaveBuffersOfAnyKind) {
  const std::string alone = digest(odd({}));
  std::filesystem::remove_all(folder_ / "odd");
  EXPECT_EQ(digest(odd({"--workers", "2"})), alone);
}

TEST_F(Plugin, ModelThatChangesBuffersInEvaluationIsTheSameOnAnyNumberOfWorkers) {
  const Words fault = {"--set", "model.options.fault=counts_always"};
  const std::string alone = digest(odd(fault));
  std::filesystem::remove_all(folder_ / "odd");
  EXPECT_EQ(digest(odd(joined(fault, {"--workers", "2"}))), alone);
}

TEST_F(Plugin, ModelThatIsNoLongerFiniteEndsTheRun) {
  const CommandResult ended =
      lockstep_command(odd({"--set", "model.options.fault=infinite", "--set", "train.steps=1"}));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_TRUE(has(ended.err, "is not a finite number after step 1")) << ended.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "odd/model.safetensors"));
}

TEST_F(Plugin, ModelThatEndsTheProcessIsAFailure) {
  const CommandResult ended =
      lockstep_command(odd({"--set", "model.options.fault=exits", "--workers", "2"}));
  EXPECT_NE(ended.exit_code, 0) << ended.err;
}

TEST_F(Plugin, MetricsThatAreNoNumbersDoNotHinderAResume) {
  const Words fault = {"--set", "objective.options.fault=nan_metric"};
  const nlohmann::json whole = result(lockstep_command(odd(fault)));
  EXPECT_TRUE(whole.at("test_mean").is_null());
  std::filesystem::remove_all(folder_ / "odd");
  ASSERT_EQ(lockstep_command(odd(joined(fault, {"--stop-at-step", "5"}))).exit_code, 0);
  const CommandResult stopped = lockstep_command({"train", "--resume", "--load", library("odd"),
                                                  "--json", "--out", (folder_ / "odd").string()});
  EXPECT_EQ(result(stopped).value("model_sha256", ""), whole.at("model_sha256"));
}

TEST_F(Plugin, StoppedRunSaysToLoadItAgain) {
  const CommandResult stopped = lockstep_command(odd({"--stop-at-step", "5"}));
  EXPECT_TRUE(has(stopped.err, " --load " + library("odd"))) << stopped.err;
}

TEST_F(Plugin, DataSetThatThrowsWhatIsNoExceptionIsNamedToo) {
  const CommandResult ended =
      lockstep_command(odd({"--set", "data.options.fault=throws_a_number"}));
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_TRUE(has(ended.err, "sample 7")) << ended.err;
}

TEST_F(Plugin, DataSetThatThrowsEndsTheRunWithTheSample) {
  const CommandResult ended = lockstep_command(odd({"--set", "data.options.fault=throws"}));
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_TRUE(has(ended.err, "sample 7")) << ended.err;
  EXPECT_TRUE(has(ended.err, "page 7 is torn out")) << ended.err;
}

TEST_F(Plugin, DataSetThatChangesItsSizeIsRefused) {
  const CommandResult ended = lockstep_command(odd({"--set", "data.options.fault=shrinks"}));
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_TRUE(has(ended.err, "size")) << ended.err;
}

TEST_F(Plugin, ObjectiveThatIsNoLongerANumberEndsTheRun) {
  const CommandResult ended = lockstep_command(odd({"--set", "objective.options.fault=nan"}));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_TRUE(has(ended.err, "the loss is nan")) << ended.err;
}

TEST_F(Plugin, ObjectiveWithAnImpossibleLossIsRefusedByWhatIsWrong) {
  const auto fault = [](const std::string& name) {
    return Words{"--set", "objective.options.fault=" + name};
  };
  for (const auto& [name, reason] :
       {std::pair{"negative", "weight of -1"}, std::pair{"detached", "do not detach"},
        std::pair{"weightless", "nothing to learn from"}}) {
    EXPECT_TRUE(refuses(odd(fault(name)), reason)) << name;
    std::filesystem::remove_all(folder_ / "odd");
  }
}

TEST_F(Plugin, MetricsThatDifferBetweenRanksAreAMismatch) {
  const ScopedVariable key("LOCKSTEP_JOB_KEY", "k");
  const ScopedVariable port("MASTER_PORT", std::to_string(20'000 + getpid() % 20'000));
  const ScopedVariable world("WORLD_SIZE", "2");
  const ScopedVariable rank("RANK", "0");
  const Words words = odd({"--set", "objective.options.fault=by_rank"});
  Child first(words);
  setenv("RANK", "1", 1);
  Child second(words);
  const CommandResult told = first.wait();
  EXPECT_NE(second.wait().exit_code, 0);
  EXPECT_NE(told.exit_code, 0);
  EXPECT_TRUE(has(told.err, "the objective's metrics")) << told.err;
}

}  // namespace
}  // namespace lockstep
