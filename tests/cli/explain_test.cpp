// Runs `lockstep explain` as a person would.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "collective/plan/all_reduce.h"
#include "lockstep_command.h"
#include "pipeline/schedule.h"
#include "temporary_folder.h"

namespace lockstep {
namespace {

TEST(Explain, SetsTheAlgorithmsSideBySide) {
  const CommandResult outcome = lockstep_command({"explain", "all_reduce", "-n", "8", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'),
            static_cast<int64_t>(collective::planned_algorithms().size()));
  for (const char* name : {"ring", "tree", "butterfly"})
    EXPECT_NE(outcome.out.find(fmt::format("\"{}\"", name)), std::string::npos) << outcome.out;
}

TEST(Explain, SuggestsTheNearestOperation) {
  EXPECT_TRUE(refuses({"explain", "all_reduec"}, "did you mean 'all_reduce'?"));
  EXPECT_TRUE(refuses({"explain", "pipline", "--stages", "2"}, "did you mean 'pipeline'?"));
}

TEST(Explain, RefusesFlagsBeforeTheOperationRatherThanIgnoreThem) {
  EXPECT_TRUE(refuses({"explain", "-n", "8", "all_reduce"}, "unknown flag '-n'"));
}

TEST(Explain, RefusesWhatCannotBe) {
  EXPECT_TRUE(refuses({"explain", "all_reduce", "-n", "0"}, "expected 1 to 4096"));
  EXPECT_TRUE(refuses({"explain", "all_reduce", "--algorithm", "rign"}, "did you mean 'ring'?"));
  EXPECT_TRUE(refuses({"explain", "all_reduce", "--bytes", "big"}, "not a size"));
  EXPECT_TRUE(refuses({"explain", "all_reduce", "--svg", "x.svg"}, "--algorithm"));
}

TEST(Explain, RefusesNetworksThatCannotBe) {
  const auto refused = [](std::vector<std::string> flags, const std::string& why) {
    flags.insert(flags.begin(), {"explain", "all_reduce"});
    return refuses(flags, why);
  };
  EXPECT_TRUE(refused({"--topology", "rnig"}, "did you mean 'ring'?"));
  EXPECT_TRUE(refused({"--topology", "two_level"}, "--workers-per-host"));
  EXPECT_TRUE(refused({"--workers-per-host", "4"}, "expected --topology two_level"));
  EXPECT_TRUE(refused({"--overhead", "-1"}, "--overhead -1: expected 0 to 1e+09 us"));
  EXPECT_TRUE(refused({"--reduce-speed", "0"}, "expected 1e-06 to 1e+06 GB/s"));
  EXPECT_TRUE(refused({"--bandwidth", "0"}, "1e-06 to 1e+06 Gbit/s"));
  EXPECT_TRUE(refused({"--latency", "1e300"}, "--latency 1e+300: expected 0 to 1e+09 us"));
  EXPECT_TRUE(refused({"--algorithm", "engine"}, "has no plan to explain"));
  EXPECT_TRUE(refused({"--latency", "1ms"},
                      "--latency 1ms: expected a number; --latency is: of a message, in "
                      "microseconds (default 50)"));
}

TEST(Explain, SketchesTheRoundsOfAnAlgorithm) {
  const CommandResult outcome =
      lockstep_command({"explain", "all_reduce", "-n", "2", "--algorithm", "butterfly"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("rank 0  ->1 <+1\nrank 1  ->0 <+0\n"), std::string::npos)
      << outcome.out;
}

// With these flags; one object per line.
std::vector<nlohmann::json> explained_pipelines(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"explain", "pipeline", "--json"});
  const CommandResult outcome = lockstep_command(flags);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  std::vector<nlohmann::json> rows;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

TEST(Explain, ComparesAllSchedulesOfAPipeline) {
  const auto rows = explained_pipelines({"--stages", "4", "--micro-batches", "8"});
  std::vector<std::string> names;
  for (const auto& row : rows) names.push_back(row["schedule"]);
  EXPECT_EQ(names, pipeline::pipeline_schedules().names());
  for (const auto& row : rows) {
    const double work = row["busy"][0].get<double>();
    EXPECT_EQ(work, 8 * 3) << "every schedule computes the same model: " << row;
  }
  EXPECT_EQ(rows[0]["time"], 33);
  EXPECT_EQ(rows[0]["bubble"], 3.0 / 11);
  EXPECT_EQ(rows[0]["parts_in_flight"], (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(rows[2]["time"], 28.5);
  EXPECT_EQ(rows[2]["parts_in_flight"][0], 11);
}

TEST(Explain, ComparesTheOtherSchedulesIfOneCannotRun) {
  const auto rows = explained_pipelines({"--stages", "4", "--micro-batches", "7"});
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_NE(rows[2]["refused"].get<std::string>().find("7 micro-batches on 4 stages"),
            std::string::npos);
  EXPECT_EQ(rows[1]["time"], 30);
}

TEST(Explain, TimesOfStagesAndOfPartsDescribeTheSameModel) {
  const std::vector<std::string> sizes = {"--stages", "2", "--micro-batches", "4"};
  const auto with = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), sizes.begin(), sizes.end());
    return explained_pipelines(flags);
  };
  const auto by_stage = with({"--forward", "2,4", "--backward", "4,8"});
  const auto by_part = with({"--forward", "1,1,2,2", "--backward", "2,2,4,4"});
  EXPECT_EQ(by_stage, by_part);
  EXPECT_EQ(by_stage[0]["forward"], (std::vector<double>{2, 4}));
  EXPECT_EQ(by_stage[2]["forward"], (std::vector<double>{1, 1, 2, 2}));
}

TEST(Explain, ShowsOneScheduleAsAChart) {
  const CommandResult outcome = lockstep_command(
      {"explain", "pipeline", "--stages", "2", "--micro-batches", "2", "--schedule", "1f1b"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("stage 0  0>1>....0<<<..1<<<  2\n"
                             "stage 1  ..0>0<<<1>1<<<....  1\n"),
            std::string::npos)
      << outcome.out;
}

TEST(Explain, DrawsOneSchedule) {
  TemporaryFolder folder;
  const std::string file = (folder / "chart.svg").string();
  const CommandResult outcome =
      lockstep_command({"explain", "pipeline", "--schedule", "interleaved", "--svg", file});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(read_file(file).find("interleaved: 4 stages, 8 micro-batches, 2 parts per stage"),
            std::string::npos);
}

TEST(Explain, RefusesPipelinesThatCannotBe) {
  const auto refused = [](std::vector<std::string> flags, const std::string& why) {
    flags.insert(flags.begin(), {"explain", "pipeline"});
    return refuses(flags, why);
  };
  EXPECT_TRUE(refused({"--stages", "0"}, "--stages 0: expected 1 to 1,024"));
  EXPECT_TRUE(refused({"--stages", "1000000"}, "--stages 1000000: expected 1 to 1,024"));
  EXPECT_TRUE(refused({"--micro-batches", "-1"}, "--micro-batches -1: expected 1 to 65,536"));
  EXPECT_TRUE(refused({"--stages", "1024", "--micro-batches", "65536"}, "at most 1048576"));
  EXPECT_TRUE(refused({"--parts-per-stage", "0"}, "--parts-per-stage 0: expected 1 to 64"));
  EXPECT_TRUE(refused({"--schedule", "gpip"}, "did you mean 'gpipe'?"));
  EXPECT_TRUE(refused({"--schedule", "gpipe", "--parts-per-stage", "2"}, "gpipe has 1 part"));
  EXPECT_TRUE(refused({"--schedule", "interleaved", "--micro-batches", "7"},
                      "7 micro-batches on 4 stages"));
}

TEST(Explain, RefusesTimesOfPipelinesThatCannotBe) {
  const auto refused = [](std::vector<std::string> flags, const std::string& why) {
    flags.insert(flags.begin(), {"explain", "pipeline"});
    return refuses(flags, why);
  };
  EXPECT_TRUE(refused({"--forward", "1,2,3"}, "--forward 1,2,3: 3 times; expected 1 or 4"));
  EXPECT_TRUE(refused({"--schedule", "1f1b", "--backward", "1,2,3,4,5,6,7,8"},
                      "8 times; expected 1 or 4, one for each stage"));
  EXPECT_TRUE(refused({"--forward", "1,,2,3"}, "'' is not a number"));
  EXPECT_TRUE(refused({"--forward", "fast"}, "'fast' is not a number"));
  EXPECT_TRUE(refused({"--backward", "-2"}, "--backward -2: expected 0 to 1e+09"));
  EXPECT_TRUE(refused({"--backward", "nan"}, "--backward nan: expected 0 to 1e+09"));
  EXPECT_TRUE(refused({"--message", "nan"}, "--message nan: expected 0 to 1e+09"));
  EXPECT_TRUE(refused({"--message", "-1"}, "--message -1: expected 0 to 1e+09"));
  EXPECT_TRUE(refused({"--forward", "0", "--backward", "0"}, "expected a time above 0"));
}

TEST(Explain, RefusesChartsThatNobodyCouldRead) {
  const auto refused = [](std::vector<std::string> flags, const std::string& why) {
    flags.insert(flags.begin(), {"explain", "pipeline", "--svg", "never.svg"});
    return refuses(flags, why);
  };
  EXPECT_TRUE(refused({}, "choose what to draw with --schedule: 1f1b, gpipe, "));
  EXPECT_TRUE(refused({"--schedule", "1f1b", "--stages", "65"}, "at most 64 stages"));
  EXPECT_TRUE(refused({"--schedule", "1f1b", "--micro-batches", "9999"}, "fewer --micro-batches"));
}

}  // namespace
}  // namespace lockstep
