// What `lockstep train --stages` promises: the model of one worker with the same shards.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/small_runs.h"

namespace lockstep::cli {
namespace {

class Stages : public SmallRuns {};

TEST_F(Stages, OfAnyNumberAndScheduleEndWithTheModelOfOneWorker) {
  const nlohmann::json alone = result("alone", {});
  const auto expect_same = [&](const std::string& out, const Words& flags) {
    const nlohmann::json other = result(out, flags);
    for (const char* key : {"model_sha256", "test_accuracy", "train_loss", "test_loss"})
      EXPECT_EQ(other.value(key, nlohmann::json()), alone[key]) << out << ": " << key;
  };
  expect_same("two", {"--workers", "2", "--stages", "2"});
  expect_same("three", {"--workers", "3", "--stages", "3", "--schedule", "gpipe"});
  expect_same("grid", {"--workers", "4", "--stages", "2", "--transport", "tcp"});
  expect_same("turns", {"--workers", "2", "--stages", "2", "--schedule", "sequential"});
  expect_same("interleaved", {"--workers", "2", "--stages", "2", "--schedule", "interleaved"});
  expect_same("split", {"--workers", "3", "--stages", "3", "--split", "2,layer3.0"});
}

TEST_F(Stages, OnDevicesOfOneWorkerEndWithTheSameModel) {
  const Words torch = {"--set", "train.kernels=torch"};
  const auto with = [&](Words flags) {
    flags.insert(flags.end(), torch.begin(), torch.end());
    return flags;
  };
  const std::string alone = digest("alone", torch);
  EXPECT_EQ(digest("cpu", with({"--stages", "3"})), alone);
  EXPECT_EQ(digest("virtual", with({"--stages", "4", "--device", "virtual", "--devices",
                                    "virtual:4", "--device-memory", "64MiB"})),
            alone);
  EXPECT_EQ(digest("asynchronous", with({"--stages", "2", "--device", "virtual", "--set",
                                         "device.asynchronous=true"})),
            alone);
  EXPECT_EQ(digest("workers", with({"--workers", "2", "--stages", "2", "--device", "virtual"})),
            alone);
}

TEST_F(Stages, OfEveryModelEndWithTheSameModelWithEveryKeyOfGradients) {
  for (const Words& flags : std::vector<Words>{{"--model", "convnet"},  // draws random numbers
                                               {"--model", "mlp", "--set", "optimizer.name=adamw"},
                                               {"--set", "optimizer.clip_norm=0.1"},
                                               {"--accumulate", "2"},
                                               {"--set", "train.compress=bf16"},
                                               {"--set", "data.mixup=0.2"}}) {
    Words staged = flags;
    staged.insert(staged.end(), {"--workers", "2", "--stages", "2"});
    const std::string name = flags.back();
    EXPECT_EQ(digest(name + "-staged", staged), digest(name, flags)) << name;
  }
}

TEST_F(Stages, ThatComputeActivationsAgainEndWithTheSameModelInLessMemory) {
  const Words few = {"--set", "evaluate.batch=1"};
  Words recompute = {"--set", "parallel.recompute=true"};
  recompute.insert(recompute.end(), few.begin(), few.end());
  const nlohmann::json kept = result("kept", few), again = result("again", recompute);
  EXPECT_EQ(again["model_sha256"], kept["model_sha256"]);
  EXPECT_LT(again["memory"]["activations"], kept["memory"]["activations"]);
  Words staged = {"--workers", "2", "--stages", "2"};
  staged.insert(staged.end(), recompute.begin(), recompute.end());
  EXPECT_EQ(digest("staged", staged), kept["model_sha256"].get<std::string>());
  Words dropping = {"--model", "convnet"};
  const std::string dropped = digest("dropped", dropping);
  dropping.insert(dropping.end(), recompute.begin(), recompute.end());
  EXPECT_EQ(digest("dropped-again", dropping), dropped);
}

TEST_F(Stages, HoldFewerActivationsWith1f1bThanWithGpipe) {
  const auto memory = [&](const std::string& out, Words flags) {
    flags.insert(flags.end(), {"--set", "train.batch=16", "--set", "train.shards=8", "--set",
                               "evaluate.batch=1", "--set", "train.kernels=torch"});
    return result(out, flags)["memory_by_stage"];
  };
  for (const std::string kind : {"cpu", "virtual"})
    for (const std::string stages : {"2", "4"}) {
      Words flags = {"--stages", stages,    "--device",
                     kind,       "--split", stages == "2" ? "5" : "3,6,9"};
      if (kind == "cpu") flags.insert(flags.end(), {"--workers", stages});
      const auto with = [&](const std::string& schedule) {
        Words all = flags;
        all.insert(all.end(), {"--schedule", schedule});
        return memory(kind + stages + schedule, all);
      };
      const nlohmann::json frugal = with("1f1b"), greedy = with("gpipe");
      ASSERT_EQ(frugal.size(), std::stoul(stages));
      const auto of_first = [](const nlohmann::json& by_stage, const char* use) {
        return by_stage[0][use].get<double>();
      };
      // In flight are 2 or 4 micro-batches of 8; the backward pass needs some memory, too.
      EXPECT_LT(of_first(frugal, "activations"),
                (stages == "2" ? 0.4 : 0.7) * of_first(greedy, "activations"))
          << kind << stages;
      for (size_t stage = 0; stage < greedy.size(); ++stage) {
        EXPECT_EQ(greedy[stage]["stages"], nlohmann::json({stage}));
        // What is received and held is not `other`: with 8 micro-batches that would be more.
        EXPECT_LT(greedy[stage]["other"].get<int64_t>(),
                  greedy[stage]["activations"].get<int64_t>() / 8)
            << kind << greedy[stage];
      }
    }
}

TEST_F(Stages, SayHowLongEachComputedAndWaitedAndWhatTheySent) {
  const nlohmann::json grid = result("grid", {"--workers", "4", "--stages", "2"});
  ASSERT_EQ(grid["spans_by_stage"].size(), 4U);
  double waited = 0, computed = 0;
  for (size_t rank = 0; rank < 4; ++rank) {
    const nlohmann::json& times = grid["spans_by_stage"][rank];
    EXPECT_EQ(times["rank"], rank);
    EXPECT_EQ(times["stage"], rank % 2);
    for (const char* span : {"forward", "backward"}) {
      EXPECT_GT(times[span], 0.0);
      computed += times[span].get<double>();
    }
    waited += times["exchange"].get<double>();
  }
  EXPECT_NEAR(grid["bubble"].get<double>(), waited / (waited + computed), 1e-9);
  EXPECT_GT(grid["bytes_by_kind"]["activations"], 0);
  const nlohmann::json workers = result("workers", {"--workers", "2"});
  EXPECT_FALSE(workers.contains("bubble"));
  EXPECT_EQ(workers["bytes_by_kind"]["activations"], 0);
}

TEST_F(Stages, OfSeveralPipelinesHaveTheirRanksBesideTheirPeaks) {
  Words words =
      train_on(folder_.path(), "peaks",
               {"--shards", "4", "--set", "train.steps=1", "--workers", "4", "--stages", "2"});
  std::erase(words, "--json");
  const CommandResult ended = lockstep_command(words);
  for (const char* part : {"rank 0, stage 0 ", "rank 3, stage 1 "})
    EXPECT_NE((ended.out + ended.err).find(part), std::string::npos) << ended.out << ended.err;
}

TEST_F(Stages, MayBeOthersWhenARunIsResumed) {
  const std::string alone = digest("alone", {});
  const Words staged = {"--workers", "2", "--stages", "2"};
  for (const bool first_staged : {true, false}) {
    const std::string out = first_staged ? "staged-first" : "staged-then";
    Words begin = {"--stop-at-step", "3"}, then = {"--resume"};
    Words& with_stages = first_staged ? begin : then;
    with_stages.insert(with_stages.end(), staged.begin(), staged.end());
    if (first_staged) then.insert(then.end(), {"--stages", "1"});
    ASSERT_EQ(train(out, begin).exit_code, 0);
    EXPECT_EQ(digest(out, then), alone) << out;
  }
}

TEST_F(Stages, ThatCannotBeAreRefused) {
  EXPECT_TRUE(refuses({"--workers", "3", "--stages", "2"}, "expected a multiple of 2, or 1"));
  EXPECT_TRUE(refuses({"--stages", "12"}, "a model of 11 layers cannot be divided into 12"));
  EXPECT_TRUE(refuses({"--stages", "2", "--split", "0"}, "part 0 would have no layers"));
  EXPECT_TRUE(refuses({"--stages", "3", "--split", "4,4"}, "part 1 would have no layers"));
  EXPECT_TRUE(refuses({"--stages", "2", "--split", "layer2"}, "'layer2' is no layer"));
  EXPECT_TRUE(refuses({"--stages", "2", "--split", "3,5"}, "names 2 layers, which makes 3 parts"));
  EXPECT_TRUE(refuses({"--split", "3,5"}, "one stage; give their number, too: --stages 3"));
  EXPECT_TRUE(refuses({"--schedule", "gpipe"}, "--schedule gpipe: the model has one stage"));
  EXPECT_TRUE(refuses({"--stages", "2", "--set", "parallel.parts_per_stage=2"},
                      "1f1b has 1 part; choose the schedule interleaved"));
  EXPECT_TRUE(refuses({"--stages", "2", "--schedule", "interleaved", "--set", "train.shards=1"},
                      "1 micro-batch on 2 stages: interleaved needs a multiple of the stages, such "
                      "as 2; or choose 1f1b (parallel.schedule = \"interleaved\", "
                      "parallel.parts_per_stage = 0, 1 shard in 1 pipeline with "
                      "train.accumulate = 1)"));
  EXPECT_TRUE(refuses({"--stages", "2", "--device", "virtual", "--devices", "virtual:1"},
                      "1 worker with 2 stages"));
  EXPECT_TRUE(refuses({"--stages", "2", "--schedule", "gpip"}, "did you mean 'gpipe'"));
  EXPECT_TRUE(refuses({"--stages", "2", "--elastic"}, "cannot join or leave"));
  EXPECT_TRUE(refuses({"--workers", "14", "--stages", "2"}, "7 pipelines of 2 stages"));
}

TEST_F(Stages, AreDividedSoThatTheyFitTheirDevices) {
  const Words memory = {"--set", "train.batch=16",    "--set", "train.shards=8",
                        "--set", "evaluate.batch=1",  "--set", "train.kernels=torch",
                        "--set", "device.memory=5MiB"};
  const auto with = [&](Words flags) {
    flags.insert(flags.end(), memory.begin(), memory.end());
    return flags;
  };
  const Words two = {"--workers", "2", "--stages", "2"};
  const Words devices = {"--stages", "2", "--device", "virtual"};
  for (const Words& stages : {two, devices}) {
    const nlohmann::json fitted = result("fitted-" + stages.front(), with(stages));
    for (const nlohmann::json& each : fitted["memory_by_stage"])
      EXPECT_LE(each["peak"].get<int64_t>(), 5 << 20) << each;
    // Before the first step, and in it.
    for (const std::string split : {"10", "7"}) {
      Words by_hand = stages;
      by_hand.insert(by_hand.end(), {"--split", split});
      const CommandResult outcome = train("by-hand" + stages.front() + split, with(by_hand));
      EXPECT_EQ(outcome.exit_code, 1);
      const std::string stage =
          split == "10" ? "stage 0 (layers conv1 to layer3.2)" : "stage 1 (layers layer3.0 to fc)";
      for (const std::string& part :
           {"which computes " + stage, std::string("--split 8 would fit")})
        EXPECT_NE(outcome.err.find(part), std::string::npos) << part << ": " << outcome.err;
    }
  }
}

TEST_F(Stages, OfWhichNoSplitFitsSayHowManyWould) {
  const auto error = [&](const std::string& memory) {
    const CommandResult outcome =
        train("limited-" + memory, {"--workers", "2", "--stages", "2", "--device-memory", memory,
                                    "--set", "train.kernels=torch", "--split", "9"});
    EXPECT_EQ(outcome.exit_code, 1);
    return outcome.err;
  };
  const std::string some = error("3MiB");
  EXPECT_NE(some.find("no --split into 2 stages would fit, but --stages "), std::string::npos)
      << some;
  const std::string fewer = error("1700KiB");
  EXPECT_NE(fewer.find("would with one shard for each pipeline"), std::string::npos) << fewer;
  const std::string none = error("100KiB");
  EXPECT_NE(none.find("which computes stage"), std::string::npos) << none;
  EXPECT_NE(none.find("nor would any number of stages"), std::string::npos) << none;
}

}  // namespace
}  // namespace lockstep::cli
