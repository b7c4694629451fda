// What `lockstep fit` says of memory, against real training runs.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/small_training.h"
#include "lockstep_command.h"
#include "scoped_variable.h"
#include "temporary_folder.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::json;

class Fit : public ::testing::Test {
 protected:
  Fit() { write_images(folder_.path(), 70); }

  Words model(const std::string& name) const {
    return {"--data", "npy:" + folder_.path().string(), "--model", name};
  }

  std::vector<Json> ways(const Words& flags) const {
    const CommandResult result = lockstep_command(joined({"fit", "--json"}, flags));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<Json> all;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) all.push_back(Json::parse(line));
    return all;
  }

  // Two epochs, of which each has a smaller last batch and an evaluation.
  CommandResult train(const std::string& command, const std::string& out) const {
    std::istringstream stream(command);
    Words words;
    for (std::string word; stream >> word;) words.push_back(word);
    EXPECT_EQ(words[0], "lockstep");
    words.erase(words.begin());
    return lockstep_command(
        joined(words, {"--epochs", "2", "--json", "--out", (folder_ / out).string()}));
  }

  static const Json* named(const std::vector<Json>& all, const std::string& way) {
    for (const Json& each : all)
      if (each.at("way") == way) return &each;
    return nullptr;
  }

  TemporaryFolder folder_;
  int runs_ = 0;
};

// The smallest limit, in KiB, with which one device takes so many samples.
int64_t limit_for(const Json& at_once) {
  return at_once.at("peak_bytes").get<int64_t>() / 1024 + 1;
}

// Along a line through passes of few samples, it would be up to three times as much.
TEST_F(Fit, MeasuresWhatNeedsMoreThanTheLimit) {
  const Words asked = joined(model("convnet"), {"--batch", "32", "--max-devices", "1"});
  const std::vector<Json> wide = ways(joined(asked, {"--device-memory", "1GiB"}));
  const std::vector<Json> narrow = ways(joined(asked, {"--device-memory", "1MiB"}));
  ASSERT_NE(named(wide, "one device"), nullptr);
  ASSERT_NE(named(narrow, "one device"), nullptr);
  EXPECT_EQ(named(narrow, "one device")->at("fits"), false);
  EXPECT_EQ(named(narrow, "one device")->at("measured"), true);
  EXPECT_EQ(named(narrow, "one device")->at("peak_bytes"),
            named(wide, "one device")->at("peak_bytes"));
}

TEST_F(Fit, FindsWaysThatTrainUnderALimitThatAdmitsOneSample) {
  const Words asked = joined(model("convnet"), {"--batch", "32"});
  const std::vector<Json> one =
      ways(joined(model("convnet"), {"--batch", "1", "--device-memory", "1GiB"}));
  ASSERT_NE(named(one, "one device"), nullptr);
  const std::string limit = fmt::format("{}KiB", limit_for(*named(one, "one device")));
  const std::vector<Json> all = ways(joined(asked, {"--device-memory", limit}));
  ASSERT_NE(named(all, "data parallel"), nullptr);
  EXPECT_EQ(named(all, "data parallel")->at("devices"), 32);
  ASSERT_NE(named(all, "accumulate"), nullptr);
  ASSERT_NE(named(all, "one device"), nullptr);
  EXPECT_FALSE(named(all, "one device")->at("fits"));
  int trained = 0;
  for (const Json& way : all) {
    if (!way.at("fits").get<bool>()) continue;
    EXPECT_EQ(way.at("largest_batch_of_one_device"), 1);
    const std::string command = way.at("command");
    const CommandResult result = train(command, fmt::format("way-{}", trained++));
    EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.err;
  }
  EXPECT_GE(trained, 4);
}

TEST_F(Fit, PredictsThePeakOfStepsThatWereNotMeasured) {
  for (const std::string name : {"convnet", "resnet20"})
    for (const char* batch : {"3", "10", "24"}) {
      const std::vector<Json> all = ways(
          joined(model(name), {"--batch", batch, "--device-memory", "1GiB", "--max-devices", "2"}));
      for (const Json& way : all) {
        const std::string command = way.at("command");
        const std::string at_once = fmt::format("{}", way.at("samples_per_pass").get<int64_t>());
        const CommandResult result =
            train(command + " --set evaluate.batch=" + at_once + " --set train.drop_last=true",
                  fmt::format("{}-{}-{}", name, batch, &way - all.data()));
        ASSERT_EQ(result.exit_code, 0) << command << "\n" << result.err;
        const double peak = Json::parse(result.out).at("memory").at("peak");
        EXPECT_NEAR(way.at("peak_bytes").get<double>() / peak, 1, 0.05) << command;
      }
    }
}

TEST_F(Fit, FindsTheLargestBatchThatTrainsAndWithOneMoreThatDoesNot) {
  for (const std::string name : {"convnet", "mlp", "resnet20"}) {
    const std::vector<Json> one =
        ways(joined(model(name), {"--batch", "24", "--device-memory", "1GiB"}));
    ASSERT_NE(named(one, "one device"), nullptr);
    const std::string limit = named(one, "one device")->at("peak_bytes").dump();
    const Words device = joined(model(name), {"--device-memory", limit});
    const std::vector<Json> all = ways(joined(device, {"--batch", "1"}));
    ASSERT_FALSE(all.empty());
    const int64_t largest = all.front().at("largest_batch_of_one_device");
    EXPECT_EQ(largest, 24) << name;
    const auto trained = [&](int64_t batch) {
      const std::string out = fmt::format("{}-{}", name, batch);
      return lockstep_command(
          joined(joined({"train"}, device), {"--batch", fmt::format("{}", batch), "--shards", "1",
                                             "--steps", "1", "--out", (folder_ / out).string()}));
    };
    const CommandResult as_found = trained(largest);
    EXPECT_EQ(as_found.exit_code, 0) << name << as_found.err;
    const CommandResult more = trained(largest + 1);
    EXPECT_EQ(more.exit_code, 1) << name;
    EXPECT_NE(more.err.find("out of memory"), std::string::npos) << more.err;
  }
}

TEST_F(Fit, SaysHowManyDevicesPlainDataParallelismNeeds) {
  const std::vector<Json> one =
      ways(joined(model("convnet"), {"--batch", "1", "--device-memory", "1GiB"}));
  const std::string limit = named(one, "one device")->at("peak_bytes").dump();
  const CommandResult result = lockstep_command(
      joined(joined({"fit"}, model("convnet")), {"--batch", "32", "--device-memory", limit}));
  for (const char* part : {"A batch of 32 needs 32 devices with plain data parallelism, 1 sample",
                           "The fewest: 1 device (accumulate", "; the fastest: ", " shards ",
                           "a batch of 32, the fastest first:"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
}

TEST_F(Fit, SaysHowMuchMemoryWouldDoWhereNoneFits) {
  const Words asked =
      joined(model("mlp"), {"--batch", "31", "--device-memory", "4MiB", "--max-devices", "2"});
  const CommandResult text = lockstep_command(joined({"fit"}, asked));
  const CommandResult json = lockstep_command(joined({"fit", "--json"}, asked));
  for (const char* part : {"None of these fits, on up to the 2 devices", " would need about ",
                           "No data parallelism: a batch of 31", "one of 32 can"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
    EXPECT_NE(json.err.find(part), std::string::npos) << part << "\n" << json.err;
  }
}

TEST_F(Fit, SaysThatTheDataSetHasNoMoreSamplesThanTheBatchThatItChose) {
  const CommandResult result =
      lockstep_command(joined(joined({"train", "--batch", "auto", "--print-recipe"}, model("mlp")),
                              {"--device-memory", "1GiB"}));
  EXPECT_NE(result.err.find("the data set has no more"), std::string::npos) << result.err;
}

TEST_F(Fit, ListsInItsHelpOnlyFlagsThatItTakes) {
  const CommandResult help = lockstep_command({"fit", "--help"});
  for (const char* flag : {"--stages", "--schedule", "--split", "--zero", "--parallel", "auto:"})
    EXPECT_EQ(help.out.find(flag), std::string::npos) << flag;
  EXPECT_NE(help.out.find("--batch"), std::string::npos);
}

TEST_F(Fit, PredictsMemoryInWhichEveryWayTrains) {
  for (const std::string name : {"convnet", "mlp", "resnet20"}) {
    const Words asked = joined(model(name), {"--batch", "12", "--max-devices", "2"});
    for (const Json& way : ways(joined(asked, {"--device-memory", "1GiB"}))) {
      std::string command = way.at("command");
      const std::string unlimited = "--device-memory 1GiB";
      const size_t at = command.find(unlimited);
      ASSERT_NE(at, std::string::npos) << command;
      // What a stage sends is kept until the next one has received it, which may be late.
      const bool sends = command.find("--stages") != std::string::npos;
      const int64_t enough = way.at("peak_bytes").get<int64_t>() * (sends ? 103 : 100) / 100;
      command.replace(at, unlimited.size(), fmt::format("--device-memory {}", enough));
      const CommandResult result = train(command, fmt::format("exactly-{}", runs_++));
      EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.err;
    }
  }
}

TEST_F(Fit, ChoosesTheBatchOfATraining) {
  const Words device = joined(model("resnet20"), {"--device-memory", "9MiB"});
  const int64_t largest =
      ways(joined(device, {"--batch", "1"})).front().at("largest_batch_of_one_device");
  const auto batch_of = [&](const Words& flags) {
    const CommandResult result = lockstep_command(
        joined(joined({"train", "--batch", "auto", "--print-recipe"}, device), flags));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const size_t at = result.out.find("\nbatch = ");
    return std::stoll(result.out.substr(at + 9));
  };
  EXPECT_EQ(batch_of({}), largest);
  EXPECT_EQ(batch_of({"--workers", "2"}), 2 * largest);
  EXPECT_EQ(batch_of({"--workers", "2", "--accumulate", "3"}), 6 * largest);
  EXPECT_TRUE(refuses(joined({"train", "--batch", "auto"}, model("mlp")), "--device-memory SIZE"));
}

TEST_F(Fit, MeasuresOnVirtualDevicesToo) {
  const Words device =
      joined(model("convnet"), {"--device", "virtual", "--set", "train.kernels=torch"});
  const std::vector<Json> all =
      ways(joined(device, {"--batch", "8", "--device-memory", "64MiB", "--max-devices", "2"}));
  for (const Json& way : all) {
    const std::string at_once = fmt::format("{}", way.at("samples_per_pass").get<int64_t>());
    const CommandResult result =
        train(way.at("command").get<std::string>() + " --set evaluate.batch=" + at_once +
                  " --set train.drop_last=true",
              fmt::format("virtual-{}", &way - all.data()));
    ASSERT_EQ(result.exit_code, 0) << way << result.err;
    const double peak = Json::parse(result.out).at("memory").at("peak");
    EXPECT_NEAR(way.at("peak_bytes").get<double>() / peak, 1, 0.05) << way;
  }
}

TEST_F(Fit, DividesStagesOnVirtualDevicesSoThatTheyFit) {
  const Words device =
      joined(model("resnet20"),
             {"--device", "virtual", "--set", "train.kernels=torch", "--batch", "16",
              "--device-memory", "5MiB", "--max-devices", "2", "--devices", "virtual:2"});
  const std::vector<Json> all = ways(device);
  const Json* const stages = named(all, "pipeline");
  ASSERT_NE(stages, nullptr);
  EXPECT_TRUE(stages->at("fits")) << *stages;
  const std::string command = stages->at("command");
  EXPECT_NE(command.find("--devices virtual:2"), std::string::npos) << command;
  const CommandResult result = train(command + " --set evaluate.batch=1", "stages");
  EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.err;
}

TEST_F(Fit, ChoosesABatchThatStagesOnOneCpuTakeTogether) {
  const auto trained = [&](const std::string& batch) {
    return lockstep_command(joined(
        joined({"train", "--batch", batch, "--out", (folder_ / batch).string()}, model("resnet20")),
        {"--stages", "2", "--device-memory", "16MiB", "--shards", "2", "--steps", "1", "--set",
         "evaluate.batch=1", "--json"}));
  };
  const CommandResult found = trained("auto");
  ASSERT_EQ(found.exit_code, 0) << found.err;
  const std::string told = "--batch auto: ";
  const int64_t batch = std::stoll(found.err.substr(found.err.find(told) + told.size()));
  EXPECT_EQ(trained(fmt::format("{}", 2 * batch)).exit_code, 1) << batch;
}

TEST_F(Fit, PrintsCommandsThatTrainTakesWhateverTheRecipesStagesAre) {
  {
    std::ofstream recipe(folder_ / "interleaved.toml");
    recipe << "[data]\nname = \"npy:" << folder_.path().string() << "\"\n"
           << "[model]\nname = \"mlp\"\n[train]\nbatch = 8\nshards = 4\n"
           << "[parallel]\nstages = 2\nschedule = \"interleaved\"\nparts_per_stage = 2\n";
  }
  const std::string recipe = (folder_ / "interleaved.toml").string();
  int trained = 0;
  for (const Json& way : ways({recipe, "--device-memory", "1GiB", "--max-devices", "2"})) {
    const std::string command = way.at("command");
    const CommandResult result = train(command, fmt::format("taken-{}", trained++));
    EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.err;
  }
  EXPECT_GT(trained, 2);
}

TEST_F(Fit, PrintsCommandsThatDoNotDependOnHowTheRecipeDividesTheBatch) {
  for (const Json& way :
       ways(joined(model("mlp"), {"--batch", "8", "--device-memory", "1GiB", "--max-devices", "2",
                                  "--set", "parallel.stages=2", "--set", "train.shards=4"}))) {
    const std::string command = way.at("command");
    EXPECT_EQ(command.find("parallel.stages"), std::string::npos) << command;
    EXPECT_EQ(command.find("train.shards"), std::string::npos) << command;
  }
}

TEST_F(Fit, DoesNotChooseABatchInEveryProcessThatALauncherStarted) {
  const ScopedVariable rank("RANK", "1"), world("WORLD_SIZE", "2");
  EXPECT_TRUE(refuses(joined({"train", "--batch", "auto", "--device-memory", "1GiB"}, model("mlp")),
                      "--batch auto: torchrun's variables started 2 processes"));
}

TEST_F(Fit, RefusesWhatCannotBeAnswered) {
  EXPECT_TRUE(refuses({"fit", "--batch", "8"}, "--device-memory SIZE"));
  EXPECT_TRUE(refuses({"fit", "--device-memory", "1GiB", "--max-devices", "0"}, "--max-devices 0"));
  EXPECT_TRUE(refuses({"fit", "--device-memory", "1GiB", "--batch", "auto"}, "--batch auto: fit"));
  EXPECT_TRUE(refuses({"fit", "--device-memory", "1GiB", "--stages", "4"}, "--stages: fit finds"));
  EXPECT_TRUE(refuses({"fit", "--device-memory", "1GiB", "--latency", "-1"}, "--latency -1"));
  EXPECT_TRUE(refuses({"fit", "--device-memory", "1GiB", "--model", "resnet21"}, "resnet20"));
  const Words small = joined({"fit", "--batch", "8"}, model("mlp"));
  EXPECT_TRUE(refuses(joined(small, {"--device-memory", "24"}), "24 is 24 bytes"));
  EXPECT_TRUE(refuses(joined(small, {"--device-memory", "0"}), "0 is no limit"));
  EXPECT_TRUE(refuses(joined(small, {"--device-memory", "1GiB", "--devices", "virtual:4"}),
                      "--devices virtual:4: the recipe's device.kind is cpu"));
}

}  // namespace
}  // namespace lockstep::cli
