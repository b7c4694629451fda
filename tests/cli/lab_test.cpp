// What `lockstep lab` prints.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "base/atomic_file.h"
#include "cli/small_training.h"
#include "lockstep_command.h"
#include "temporary_folder.h"

namespace lockstep::cli {
namespace {

class Lab : public ::testing::Test {
 protected:
  Lab() { write_images(folder_.path(), 60); }

  Words dp_vs_ddp(const Words& flags) const {
    return joined({"lab", "dp-vs-ddp", "--data", "npy:" + folder_.path().string(), "--model", "mlp",
                   "--batch", "12", "--shards", "4", "--set", "train.steps=8", "--rounds", "1"},
                  flags);
  }

  static std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

  TemporaryFolder folder_;
};

TEST_F(Lab, DpVsDdpPrintsARowForEveryWayWithTheSameModel) {
  const std::string csv = (folder_ / "rows.csv").string();
  const CommandResult outcome =
      lockstep_command(dp_vs_ddp({"--devices", "1,2", "--json", "--csv", csv}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::vector<std::string> lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 3U) << outcome.out;
  std::vector<nlohmann::json> rows;
  for (const std::string& line : lines) rows.push_back(nlohmann::json::parse(line));
  std::set<std::string> models;
  for (const nlohmann::json& row : rows) {
    models.insert(row["model_sha256"].get<std::string>());
    EXPECT_GT(row["seconds_per_step"], 0);
    EXPECT_GT(row["peak_first_device"], 0);
  }
  EXPECT_EQ(models.size(), 1U);
  EXPECT_EQ(rows[0]["devices"], 1);
  EXPECT_EQ(rows[0]["speedup"], 1);
  EXPECT_EQ(rows[1]["way"], "dp");
  EXPECT_GT(rows[1]["bytes_replicated"], 0);
  EXPECT_GT(rows[1]["peak_first_device"], rows[1]["peak_other_device"]);
  EXPECT_EQ(rows[2]["way"], "ddp");
  EXPECT_EQ(rows[2]["bytes_replicated"], 0);
  EXPECT_GT(rows[2]["bytes_gradients"], 0);
  EXPECT_EQ(lines_of(read_file(csv)).size(), 4U);
  EXPECT_TRUE(read_file(csv).starts_with("way,devices,seconds_per_step,"));
  EXPECT_NE(outcome.err.find("run 3 of 3: DDP on 2 devices"), std::string::npos) << outcome.err;
}

TEST_F(Lab, DpVsDdpExplainsTheTableInWordsAndKeepsRunsThatAreAskedFor) {
  const std::string out = (folder_ / "runs").string();
  const CommandResult outcome = lockstep_command(dp_vs_ddp({"--devices", "3", "--out", out}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* const expected :
       {"DataParallel       3", "DDP                3", "times as fast as",
        "every byte through the first device", "All ways end with the same model"})
    EXPECT_NE(outcome.out.find(expected), std::string::npos) << expected << "\n" << outcome.out;
  for (const char* const run : {"ddp-1-1", "dp-3-1", "ddp-3-1"})
    EXPECT_TRUE(std::filesystem::exists(folder_ / "runs" / run / "events.jsonl")) << run;
}

TEST_F(Lab, DpVsDdpRefusesWhatCannotBeCompared) {
  EXPECT_TRUE(refuses(dp_vs_ddp({"--devices", "5"}), "the recipe has 4 shards"));
  EXPECT_TRUE(refuses(dp_vs_ddp({"--devices", "0"}), "expected numbers from 1 on"));
  EXPECT_TRUE(refuses(dp_vs_ddp({"--parallel", "dp"}), "runs both dp and ddp"));
  EXPECT_TRUE(refuses(dp_vs_ddp({"--stages", "2"}), "leave --stages and --zero out"));
  EXPECT_TRUE(refuses({"lab", "dp-vs-ddp", "--steps", "3"}, "train.steps = 3: expected 7 or more"));
  EXPECT_TRUE(refuses({"lab", "dp-vs-dpp"}, "unknown command 'dp-vs-dpp'"));
  EXPECT_TRUE(refuses({"lab", "dp-vs-ddp", "--model", "mpl"}, "mpl"));
}

TEST_F(Lab, DpVsDdpTakesItsDefaultsOnlyWhereNothingElseIsGiven) {
  const auto title_of = [&](const Words& flags) {
    const CommandResult outcome = lockstep_command(
        joined({"lab", "dp-vs-ddp", "--data", "npy:" + folder_.path().string(), "--rounds", "1",
                "--devices", "1", "--steps", "7", "--timeout", "1e7"},
               flags));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return lines_of(outcome.out + "\n").front();
  };
  const auto expect_title = [&](const Words& flags, const std::string& begin,
                                const std::string& end) {
    const std::string title = title_of(flags);
    EXPECT_TRUE(title.starts_with(begin)) << title;
    EXPECT_NE(title.find(end), std::string::npos) << title;
  };
  // Of 60 samples 6 are held out.
  expect_title({}, "mlp on", "a batch of 54 in 6 shards, 1 thread for each virtual device");
  expect_title({"--accumulate", "4"}, "mlp on", "a batch of 52 in 1 shard,");
  expect_title({"--set", "model.name=logistic", "--set", "train.batch=10"}, "logistic on",
               "a batch of 10 in");
}

TEST_F(Lab, DpVsDdpRunsTheEpochsThatAreAskedFor) {
  const CommandResult outcome =
      lockstep_command({"lab", "dp-vs-ddp", "--data", "npy:" + folder_.path().string(), "--batch",
                        "12", "--rounds", "1", "--devices", "1", "--epochs", "1"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("the run has 4 steps; expected 7 or more"), std::string::npos)
      << outcome.err;
}

TEST_F(Lab, DpVsDdpTakesTheDeviceOfARecipeOrRefusesIt) {
  const auto with_recipe = [&](const std::string& device, const Words& flags) {
    folder_.write("own.toml", "[data]\nname = \"npy:" + folder_.path().string() +
                                  "\"\n[model]\nname = \"mlp\"\n[train]\nbatch = 12\n"
                                  "epochs = 500\n[device]\n" +
                                  device);
    return joined({"lab", "dp-vs-ddp", (folder_ / "own.toml").string(), "--rounds", "1",
                   "--devices", "1", "--out", (folder_ / "runs").string()},
                  flags);
  };
  EXPECT_TRUE(refuses(with_recipe("kind = \"cpu\"\n", {}), "give --device virtual"));
  EXPECT_TRUE(refuses(dp_vs_ddp({"--device", "cpu"}), "give --device virtual"));
  const CommandResult outcome = lockstep_command(with_recipe("asynchronous = false\n", {}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string used = read_file(folder_ / "runs" / "ddp-1-1" / "recipe.toml");
  EXPECT_NE(used.find("kind = \"virtual\""), std::string::npos) << used;
  EXPECT_NE(used.find("asynchronous = false"), std::string::npos) << used;
  EXPECT_NE(used.find("steps = 30"), std::string::npos) << used;
}

TEST_F(Lab, EndsARunThatTakesTooLong) {
  const CommandResult outcome = lockstep_command(
      dp_vs_ddp({"--devices", "1", "--timeout", "1", "--set", "train.steps=100000"}));
  EXPECT_EQ(outcome.exit_code, 75) << outcome.err;
  EXPECT_NE(outcome.err.find("took longer than 1.0 s (--timeout)"), std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace lockstep::cli
