// Models, data sets and objectives of users' own, as users load them.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/deadline.h"
#include "data/write_npy.h"
#include "expect_error.h"
#include "lockstep_command.h"
#include "run/events.h"
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
  EXPECT_TRUE(refuses(load("nowhere.so"), "no such file"));
  folder_.write("text.so", "this is a text");
  EXPECT_TRUE(refuses(load((folder_ / "text.so").string()), "cannot be loaded"));
  std::filesystem::copy_file(library("spirals"), folder_ / "half.so");
  std::filesystem::resize_file(folder_ / "half.so",
                               std::filesystem::file_size(folder_ / "half.so") / 2);
  EXPECT_TRUE(refuses(load((folder_ / "half.so").string()), "is incomplete"));
  ASSERT_EQ(mkfifo((folder_ / "fifo.so").c_str(), 0600), 0);
  EXPECT_TRUE(refuses(load((folder_ / "fifo.so").string()), "is not a regular file"));
  EXPECT_TRUE(refuses(load(library("not_a_plugin")), "it has no LOCKSTEP_PLUGIN"));
  EXPECT_TRUE(refuses(load(library("other_build")), "was built for Lockstep 0.0.1"));
  EXPECT_TRUE(refuses(load(library("bad")), "two models named 'mlp'"));
  const ScopedVariable how("BAD_PLUGIN", "throws");
  EXPECT_TRUE(refuses(load(library("bad")), "no licence for this plugin"));
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

TEST_F(Plugin, ModelThatReplacesItsBuffersIsTheSameOnAnyNumberOfWorkers) {
  const Words fault = {"--set", "model.options.fault=replaces"};
  const std::string alone = digest(odd(fault));
  std::filesystem::remove_all(folder_ / "odd");
  EXPECT_EQ(digest(odd(joined(fault, {"--workers", "2"}))), alone);
  std::filesystem::remove_all(folder_ / "odd");
  EXPECT_NE(digest(odd({"--set", "model.options.fault=counts_always"})), alone);
}

TEST_F(Plugin, ModelOrObjectiveThatThrowsIsNamedWithTheStep) {
  const auto message = [&](const std::string& fault, const Words& more = {}) {
    const CommandResult ended = lockstep_command(odd(joined({"--set", fault}, more)));
    EXPECT_EQ(ended.exit_code, 1) << fault;
    std::filesystem::remove_all(folder_ / "odd");
    return ended.err;
  };
  const std::string thrown = message("model.options.fault=throws");
  EXPECT_TRUE(has(thrown, "the model's forward() threw an exception in step 0 (for ")) << thrown;
  EXPECT_TRUE(has(thrown, "samples): out of luck")) << thrown;
  const std::string shapes = message("model.options.fault=shapes", {"--workers", "2"});
  EXPECT_TRUE(has(shapes, "the model's forward() threw an exception in step 0 (")) << shapes;
  EXPECT_FALSE(has(shapes, "frame #")) << shapes;
  const std::string loss = message("objective.options.fault=throws");
  EXPECT_TRUE(has(loss, "the objective's loss() threw an exception in step 0 (")) << loss;
  EXPECT_TRUE(has(loss, "no loss today")) << loss;
  EXPECT_TRUE(refuses(odd({"--set", "model.options.fault=asks"}),
                      "the model's forward() in step 0 (for 2 samples): no tensor 'wave'; there "
                      "are: x"));
}

TEST_F(Plugin, ObjectiveThatThrowsOnTheLastStageIsNamedByAllWorkers) {
  const CommandResult ended =
      lockstep_command(odd({"--set", "model.name=layers", "--workers", "2", "--stages", "2",
                            "--shards", "2", "--set", "objective.options.fault=throws"}));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_TRUE(has(ended.err, "no loss today")) << ended.err;
  EXPECT_FALSE(has(ended.err, "closed its transport")) << ended.err;
  EXPECT_FALSE(has(ended.err, "communicator was closed")) << ended.err;
}

TEST_F(Plugin, ModelThatWouldDependOnTheNumberOfWorkersIsRefused) {
  const auto refuses_fault = [&](const std::string& fault, const std::string& word) {
    std::filesystem::remove_all(folder_ / "odd");
    return refuses(odd({"--set", "model.options.fault=" + fault}), word);
  };
  EXPECT_TRUE(refuses_fault("changes", "parameter 'frozen' was changed"));
  EXPECT_TRUE(refuses_fault("sets_data", "parameter 'fc.weight' was changed"));
  EXPECT_TRUE(refuses_fault("penalty", "a backward pass inside the model's forward()"));
  EXPECT_TRUE(refuses_fault("alias", "weight' and buffer 'alias' share memory"));
}

TEST_F(Plugin, LayerThatUsesWhatItDoesNotListIsRefusedByName) {
  const auto with = [&](const std::string& fault, const Words& flags) {
    std::filesystem::remove_all(folder_ / "odd");
    return joined(odd({"--set", "model.name=forgetful", "--set", "model.options.fault=" + fault}),
                  flags);
  };
  const std::string borrowed = "layer 'last' uses parameter 'middle.weight'";
  const std::vector<Words> ways = {{"--stages", "2"},
                                   {"--stages", "2", "--split", "1"},
                                   {"--set", "parallel.recompute=true"},
                                   {"--stages", "2", "--device", "virtual"}};
  for (const Words& way : ways) EXPECT_TRUE(refuses(with("borrows", way), borrowed)) << way.back();
  for (const std::string split : {"", "1"}) {
    const CommandResult ended =
        lockstep_command(with("borrows", {"--workers", "2", "--stages", "2", "--split", split}));
    EXPECT_NE(ended.exit_code, 0);
    EXPECT_TRUE(has(ended.err, borrowed)) << ended.err;
  }
  Words fit = with("borrows", {"--device-memory", "1MiB"});
  fit.front() = "fit";
  fit.erase(std::ranges::find(fit, "--out"), std::ranges::find(fit, "--out") + 2);
  fit.erase(std::ranges::find(fit, "--epochs"), std::ranges::find(fit, "--epochs") + 2);
  EXPECT_TRUE(refuses(fit, borrowed));
  for (const Words& way : std::vector<Words>{{}, {"--stages", "2"}})
    EXPECT_TRUE(refuses(with("unlisted", way),
                        "parameter 'middle.weight' belongs to none of the model's layers"));
}

TEST_F(Plugin, OutputIsReshapedOrRefusedByItsNumberOfElements) {
  EXPECT_TRUE(
      refuses(odd({"--set", "model.options.fault=wide"}), "of shape [2, 2]: expected [2, 1]"));
  std::filesystem::remove_all(folder_ / "odd");
  EXPECT_EQ(lockstep_command(odd({"--set", "model.options.fault=flat"})).exit_code, 0);
}

TEST_F(Plugin, ModelWithAComplexBufferIsRefusedBeforeItTrains) {
  EXPECT_TRUE(refuses(odd({"--set", "model.options.fault=complex"}), "buffer 'phase'"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "odd"));
}

TEST_F(Plugin, ModelThatIsNoLongerFiniteEndsTheRun) {
  const CommandResult ended =
      lockstep_command(odd({"--set", "model.options.fault=infinite", "--set", "train.steps=1"}));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_TRUE(has(ended.err, "is not finite after step 1")) << ended.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "odd/model.safetensors"));
}

TEST_F(Plugin, ModelThatIsNoLongerFiniteIsNotSavedByAStop) {
  const CommandResult ended =
      lockstep_command(odd({"--set", "model.options.fault=infinite", "--stop-at-step", "1"}));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_TRUE(has(ended.err, "is not finite after step 1")) << ended.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "odd/checkpoints"));
}

TEST_F(Plugin, ModelThatEndsTheProcessIsAFailure) {
  for (const std::string workers : {"1", "2"}) {
    std::filesystem::remove_all(folder_ / "odd");
    const CommandResult ended =
        lockstep_command(odd({"--set", "model.options.fault=exits", "--workers", workers}));
    EXPECT_EQ(ended.exit_code, 1) << ended.err;
    EXPECT_TRUE(has(ended.err, "called exit()")) << ended.err;
  }
}

TEST_F(Plugin, MetricsThatAreNoNumbersDoNotHinderAResume) {
  const Words fault = {"--set", "objective.options.fault=nan_metric"};
  const nlohmann::json whole = result(lockstep_command(odd(fault)));
  EXPECT_TRUE(whole.at("test_mean").is_null());
  std::filesystem::remove_all(folder_ / "odd");
  ASSERT_EQ(lockstep_command(odd(joined(fault, {"--stop-at-step", "5"}))).exit_code, 0);
  const CommandResult stopped = lockstep_command({"train", "--resume", "--load", library("odd"),
                                                  "--json", "--out", (folder_ / "odd").string()});
  EXPECT_EQ(result(stopped).value("model_sha256", ""), whole.value("model_sha256", "-"));
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

TEST_F(Plugin, DataSetThatWritesOtherValuesEachTimeIsRefused) {
  for (const char* fault : {"differs", "forgets"})
    EXPECT_TRUE(refuses(odd({"--set", std::string("data.options.fault=") + fault}),
                        "field 'y' of sample 0 of the training split differs"))
        << fault;
}

TEST_F(Plugin, DataSetOfMoreSamplesThanMemoryCanOrderIsRefused) {
  EXPECT_TRUE(refuses(odd({"--set", "data.options.fault=endless"}), "9223372036854775807 samples"));
}

TEST_F(Plugin, WeightsOfSamplesArePartOfTheDataDigest) {
  const auto data_digest = [&](const Words& flags) {
    EXPECT_EQ(lockstep_command(odd(flags)).exit_code, 0);
    const std::string digest =
        run::read_events(folder_ / "odd/events.jsonl").front().at("data_sha256");
    std::filesystem::remove_all(folder_ / "odd");
    return digest;
  };
  EXPECT_NE(data_digest({}), data_digest({"--set", "data.options.fault=counts_double"}));
}

TEST_F(Plugin, DataSetIsCheckedByDataCheck) {
  const CommandResult good =
      lockstep_command({"data", "check", "numbers", "--load", library("odd")});
  EXPECT_TRUE(has(good.out, "numbers: 128 + 128 samples")) << good.out << good.err;
  EXPECT_TRUE(refuses(
      {"data", "check", "numbers", "--load", library("odd"), "--set", "data.options.fault=throws"},
      "page 7 is torn out"));
}

TEST_F(Plugin, ValuesThatItsDataSetDidNotDeclareAreNamedByDataCheck) {
  const auto check = [](const std::string& fault) {
    return Words{"data",
                 "check",
                 "labels",
                 "--load",
                 library("odd"),
                 "--set",
                 "data.options.fault=" + fault};
  };
  EXPECT_EQ(lockstep_command(check("none")).exit_code, 0);
  EXPECT_TRUE(refuses(check("nan"), "sample 77 cannot be read: field 'x' has nan"));
  EXPECT_TRUE(refuses(check("beyond"),
                      "sample 77 cannot be read: field 'label' has the class 2 at element 0, but "
                      "declares 2 categories"));
}

TEST_F(Plugin, LabelBeyondTheClassesEndsTheRunWhateverTheObjective) {
  EXPECT_TRUE(refuses(odd({"--set", "data.name=labels", "--set", "data.options.fault=beyond"}),
                      "sample 77 cannot be read: field 'label' has the class 2"));
}

TEST_F(Plugin, ModelWithSeveralOutputsPredictsThemByTheirNames) {
  ASSERT_EQ(lockstep_command(odd({"--set", "model.name=two", "--set", "objective.name=two", "--set",
                                  "data.normalize=false"}))
                .exit_code,
            0);
  const float x = 0.5;
  data::write_npy(folder_ / "x.npy", "<f4", "(1, 1)", std::as_bytes(std::span(&x, 1)));
  const Words predict = {"predict", (folder_ / "odd").string(), (folder_ / "x.npy").string(),
                         "--load", library("odd")};
  const CommandResult text = lockstep_command(predict);
  EXPECT_TRUE(has(text.out, "x.npy[0]  kind: bee  size: 0.5\n")) << text.out << text.err;
  const auto outputs =
      nlohmann::json::parse(lockstep_command(joined(predict, {"--json"})).out)["outputs"];
  EXPECT_EQ(outputs["size"], (std::vector<float>{0.5}));
  EXPECT_EQ(outputs["kind"]["class"], "bee");
  EXPECT_EQ(outputs["kind"]["label"], 1);
  EXPECT_EQ(outputs["kind"]["scores"], (std::vector<float>{-1, 5, 0}));
}

TEST_F(Plugin, ParameterThatNeverGetsAGradientIsMentionedOnce) {
  for (const char* workers : {"1", "2"}) {
    const CommandResult ended = lockstep_command(
        odd({"--set", "model.name=two", "--set", "objective.name=two", "--workers", workers}));
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    int warnings = 0;
    for (const auto& event : run::read_events(folder_ / "odd/events.jsonl")) {
      if (event["event"] != "warning") continue;
      EXPECT_TRUE(has(event["message"], "no gradient reached parameter idle ")) << event;
      ++warnings;
    }
    EXPECT_EQ(warnings, 1);
    std::filesystem::remove_all(folder_ / "odd");
  }
}

TEST_F(Plugin, CodeThatChangedBeforeAResumeIsMentioned) {
  std::filesystem::copy_file(library("odd"), folder_ / "libmine.so");
  const auto words = [&](const Words& more) {
    return joined(
        {"train", "--load", (folder_ / "libmine.so").string(), "--out", (folder_ / "odd").string()},
        more);
  };
  ASSERT_EQ(lockstep_command(words({"--data", "numbers", "--model", "odd", "--objective", "odd",
                                    "--batch", "16", "--stop-at-step", "5"}))
                .exit_code,
            0);
  EXPECT_FALSE(
      has(lockstep_command(words({"--resume", "--stop-at-step", "6"})).err, "has changed"));
  std::ofstream(folder_ / "libmine.so", std::ios::app) << "another build";
  const CommandResult resumed = lockstep_command(words({"--resume"}));
  EXPECT_EQ(resumed.exit_code, 0);
  EXPECT_TRUE(has(resumed.err, "the code of the plugins has changed")) << resumed.err;
}

TEST_F(Plugin, ObjectiveThatIsNoLongerANumberEndsTheRun) {
  const CommandResult ended = lockstep_command(odd({"--set", "objective.options.fault=nan"}));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_TRUE(has(ended.err, "the loss is nan at step 0, before any update")) << ended.err;
}

TEST_F(Plugin, ObjectiveWithAnImpossibleLossIsRefusedByWhatIsWrong) {
  const auto fault = [](const std::string& name) {
    return Words{"--set", "objective.options.fault=" + name};
  };
  for (const auto& [name, reason] :
       {std::pair{"negative", "weight of -1"}, std::pair{"detached", "do not detach"},
        std::pair{"weightless", "expected more than 0"}, std::pair{"bad_name", "at most 32"}}) {
    EXPECT_TRUE(refuses(odd(fault(name)), reason)) << name;
    std::filesystem::remove_all(folder_ / "odd");
  }
}

// Two workers that another launcher started, with these command lines. Returns how the first ended.
CommandResult two_workers(const Words& first_words, const Words& second_words) {
  const ScopedVariable key("LOCKSTEP_JOB_KEY", "k");
  const ScopedVariable port("MASTER_PORT", std::to_string(20'000 + getpid() % 20'000));
  const ScopedVariable world("WORLD_SIZE", "2");
  const ScopedVariable rank("RANK", "0");
  Child first(first_words);
  setenv("RANK", "1", 1);
  Child second(second_words);
  CommandResult ended = first.wait();
  EXPECT_NE(second.wait().exit_code, 0);
  return ended;
}

TEST_F(Plugin, MetricsThatDifferBetweenRanksAreAMismatch) {
  const Words words = odd({"--set", "objective.options.fault=by_rank"});
  const CommandResult ended = two_workers(words, words);
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_TRUE(has(ended.err, "the objective's metrics")) << ended.err;
}

TEST_F(Plugin, CodeThatDiffersBetweenRanksIsAMismatch) {
  std::filesystem::copy_file(library("odd"), folder_ / "other.so");
  std::ofstream(folder_ / "other.so", std::ios::app) << "another build";
  Words other = odd({});
  *std::find(other.begin(), other.end(), library("odd")) = (folder_ / "other.so").string();
  const CommandResult ended = two_workers(odd({}), other);
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_TRUE(has(ended.err, "the plugins' digest")) << ended.err;
}

}  // namespace
}  // namespace lockstep
