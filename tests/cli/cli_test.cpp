// Runs the real program, as a person would.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/atomic_file.h"
#include "lockstep_command.h"
#include "run/events.h"
#include "temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

TEST(CommandLine, HelpOfEveryCommandHasExamples) {
  EXPECT_NE(lockstep_command({"--help"}).out.find("train"), std::string::npos);
  for (const std::vector<std::string>& command : {std::vector<std::string>{"train"},
                                                  {"data"},
                                                  {"data", "list"},
                                                  {"data", "get"},
                                                  {"data", "check"},
                                                  {"explain"},
                                                  {"explain", "all_reduce"},
                                                  {"explain", "pipeline"},
                                                  {"compare"},
                                                  {"run"},
                                                  {"bench"}}) {
    std::vector<std::string> arguments = command;
    arguments.emplace_back("--help");
    const CommandResult outcome = lockstep_command(arguments);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_NE(outcome.out.find("Example"), std::string::npos) << outcome.out;
  }
}

TEST(CommandLine, SuggestsTheNearestFlagAndCommand) {
  EXPECT_TRUE(refuses({"train", "--bacth", "12"}, "'--bacth' (did you mean '--batch'?)"));
  EXPECT_TRUE(refuses({"trian"}, "'trian' (did you mean 'train'?)"));
  EXPECT_TRUE(refuses({"data", "lsit"}, "'lsit' (did you mean 'list'?)"));
  EXPECT_TRUE(refuses({"data", "get", "cifar"}, "did you mean 'cifar10'?"));
}

TEST(CommandLine, RefusesBadValuesAndSuggestsTheNearest) {
  EXPECT_TRUE(refuses({"train", "--batch", "-3"}, "--batch -3"));
  EXPECT_TRUE(refuses({"train", "--batch", "lots"}, "expected a whole number"));
  EXPECT_TRUE(refuses({"train", "--batch", "60001", "--steps", "1"}, "60001"));
  EXPECT_TRUE(refuses({"train", "--model", "resnet21"}, "did you mean 'resnet20'?"));
  EXPECT_TRUE(refuses({"train", "--data", "fashion-mnits"}, "did you mean 'fashion-mnist'?"));
  EXPECT_TRUE(
      refuses({"train", "--set", "optimizer.momentun=1"}, "did you mean 'optimizer.momentum'?"));
  EXPECT_TRUE(refuses({"train", "--set", "optimizer.lr"}, "expected KEY=VALUE"));
  EXPECT_TRUE(refuses({"train", "no-such-recipe.toml"}, "no-such-recipe.toml"));
  EXPECT_TRUE(refuses({"train", "--set", "data.flip=maybe"}, "--set data.flip=maybe: data.flip"));
  EXPECT_TRUE(refuses({"train", "--epochs", "200000000000000"}, "at most"));
  EXPECT_TRUE(refuses({"train", "--lr", ""}, "optimizer.lr"));
  EXPECT_TRUE(refuses({"train", "--data", "npy:\xff\xfe"}, "UTF-8"));
  EXPECT_TRUE(refuses({"train", "/"}, "is a folder"));
  EXPECT_TRUE(refuses({"train", "/dev/zero"}, "not a regular file"));
  EXPECT_TRUE(refuses({"train", "--weights", "/"}, "/model.safetensors: no such file"));
  EXPECT_TRUE(refuses({"train", "data", "list"}, "unexpected argument 'list'"));
  EXPECT_TRUE(refuses({"train", "--resume"}, "--out"));
  EXPECT_TRUE(refuses({"train", "--stop-at-step", "0"}, "--stop-at-step 0: expected 1 or more\n"));
  EXPECT_TRUE(refuses({"train", "--batch", "1", "--batch", "2"}, "--batch: given more than once"));
}

TEST(CommandLine, ABadValueLeavesNoFolderBehind) {
  Child child({"train", "--model", "resnet21", "--out", "run"});
  EXPECT_EQ(child.wait().exit_code, 2);
  EXPECT_FALSE(fs::exists(child.folder() / "run"));
}

TEST(CommandLine, WithoutACommandShowsTheHelp) {
  const CommandResult outcome = lockstep_command({});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("Usage: lockstep"), std::string::npos) << outcome.err;
}

TEST(CommandLine, WithoutAnOperationShowsTheHelpOfItsCommand) {
  const CommandResult outcome = lockstep_command({"explain"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("Usage: lockstep explain ["), std::string::npos) << outcome.err;
}

TEST(Train, PrintsOneJsonObjectOnStdoutAndEverythingElseOnStderr) {
  const CommandResult outcome =
      lockstep_command({"train", "--model", "logistic", "--steps", "3", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto end = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(end["event"], "end");
  EXPECT_EQ(end["steps"], 3);
  EXPECT_EQ(end["model_sha256"].get<std::string>().size(), 64);
}

TEST(Train, RefusesAFolderThatHoldsAnotherRunAndLeavesItAlone) {
  TemporaryFolder folder;
  const std::vector<std::string> command = {
      "train", "--model", "logistic", "--steps", "2", "--out", (folder / "run").string()};
  ASSERT_EQ(lockstep_command(command).exit_code, 0);
  const std::string before = read_file(folder / "run/events.jsonl");
  EXPECT_TRUE(refuses(command, "contains a run already"));
  EXPECT_EQ(read_file(folder / "run/events.jsonl"), before);
}

TEST(Train, GoesOnWithoutATerminalAndKeepsItsEventsClean) {
  TemporaryFolder folder;
  const std::string out = (folder / "run").string();
  Child child({"train", "--model", "logistic", "--steps", "3", "--out", out}, Terminal::gone);
  EXPECT_EQ(child.wait().exit_code, 0);
  EXPECT_EQ(run::read_events(out + "/events.jsonl").back()["event"], "end");
  EXPECT_EQ(Child({"train", "no-such.toml"}, Terminal::gone).wait().exit_code, 2);
}

TEST(CommandLine, FailsIfOnlyStdoutIsClosedSinceItsResultIsLost) {
  const CommandResult outcome = Child({"list", "devices"}, Terminal::without_stdout).wait();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("cannot write to stdout"), std::string::npos) << outcome.err;
}

TEST(Train, ResumingAFinishedRunShowsItsResultAndAddsNothing) {
  TemporaryFolder folder;
  const std::string out = (folder / "run").string();
  const CommandResult first =
      lockstep_command({"train", "--model", "logistic", "--steps", "2", "--out", out, "--json"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const std::string before = read_file(out + "/events.jsonl");
  const CommandResult again = lockstep_command({"train", "--resume", "--out", out, "--json"});
  EXPECT_EQ(nlohmann::json::parse(again.out)["model_sha256"],
            nlohmann::json::parse(first.out)["model_sha256"]);
  EXPECT_EQ(read_file(out + "/events.jsonl"), before);
}

TEST(Train, SummaryNamesWhoTheOthersWaitedForIfThatWasNoticeable) {
  TemporaryFolder folder;
  const std::string out = (folder / "run").string();
  const CommandResult first =
      lockstep_command({"train", "--model", "logistic", "--steps", "2", "--out", out});
  EXPECT_EQ(first.out.find("waiting"), std::string::npos) << first.out;
  run::Json end = run::read_events(out + "/events.jsonl").back();
  end["stragglers"] = "rank 1 was last in 9 of 10 steps";
  run::EventLog(out + "/events.jsonl").write(end);
  const CommandResult again = lockstep_command({"train", "--resume", "--out", out});
  EXPECT_NE(again.out.find("stragglers          rank 1 was last in 9 of 10 steps\n"),
            std::string::npos)
      << again.out;
}

TEST(Train, EpochsOnTheCommandLineWinOverStepsInTheRecipe) {
  TemporaryFolder folder;
  const auto recipe = folder.write("r.toml", "[train]\nsteps = 3\nepochs = 9\n");
  const CommandResult outcome =
      lockstep_command({"train", recipe.string(), "--epochs", "4", "--print-recipe"});
  EXPECT_NE(outcome.out.find("epochs = 4"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("steps = 0"), std::string::npos) << outcome.out;
}

TEST(Train, RefusesToResumeWithAnotherRecipeAndListsTheKeys) {
  TemporaryFolder folder;
  const std::string out = (folder / "run").string();
  ASSERT_EQ(
      lockstep_command({"train", "--model", "logistic", "--steps", "2", "--out", out}).exit_code,
      0);
  EXPECT_TRUE(
      refuses({"train", "--resume", "--out", out, "--batch", "64"}, "train.batch: 64, was 128"));
}

TEST(Train, CtrlCEndsCleanlyWithACheckpointAndResumesToTheSameModel) {
  TemporaryFolder folder;
  const std::string out = (folder / "run").string();
  const std::vector<std::string> flags = {"--model", "logistic", "--steps", "1500", "--json"};
  std::vector<std::string> command = {"train", "--out", out};
  command.insert(command.end(), flags.begin(), flags.end());

  Child child(command);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!fs::exists(out + "/events.jsonl") ||
         read_file(out + "/events.jsonl").find("\"step\"") == std::string::npos) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "no step within a minute";
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kill(child.pid(), SIGINT);
  const CommandResult stopped = child.wait();
  EXPECT_EQ(stopped.exit_code, 130) << stopped.err;
  EXPECT_NE(stopped.err.find("lockstep train --resume --out"), std::string::npos) << stopped.err;
  EXPECT_EQ(nlohmann::json::parse(stopped.out)["event"], "stopped");

  const CommandResult resumed = lockstep_command({"train", "--resume", "--out", out, "--json"});
  command[2] = (folder / "whole").string();
  const CommandResult whole = lockstep_command(command);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_EQ(nlohmann::json::parse(resumed.out)["model_sha256"],
            nlohmann::json::parse(whole.out)["model_sha256"]);
}

TEST(Data, ListShowsEverySourceAndHowToGetIt) {
  const CommandResult outcome = lockstep_command({"data", "list", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* name : {"fashion-mnist", "mnist", "cifar10"})
    EXPECT_NE(outcome.out.find(name), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace lockstep
