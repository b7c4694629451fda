// `lockstep bench`, as a person would run it.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "collective/plan/all_reduce.h"
#include "collective/plan/collectives.h"
#include "lockstep_command.h"

namespace lockstep {
namespace {

using nlohmann::json;

// The rows that a small measurement prints, with `flags`.
std::vector<json> rows(const std::vector<std::string>& flags,
                       const std::string& operation = "all_reduce") {
  std::vector<std::string> command = {"bench", operation, "--json", "--batches", "1", "-b", "1K"};
  command.insert(command.end(), flags.begin(), flags.end());
  if (std::find(flags.begin(), flags.end(), "-e") == flags.end())
    command.insert(command.end(), {"-e", "4K"});
  const CommandResult outcome = lockstep_command(command);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  std::vector<json> found;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) found.push_back(json::parse(line));
  return found;
}

TEST(Bench, PrintsARowASizeWithNcclTestsColumns) {
  const auto found = rows({});
  ASSERT_EQ(found.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    const json& row = found[i];
    EXPECT_EQ(row.at("op"), "all_reduce");
    EXPECT_EQ(row.at("algorithm"), "direct");
    EXPECT_EQ(row.at("transport"), "shm");
    EXPECT_EQ(row.at("workers"), 2);
    EXPECT_EQ(row.at("bytes"), i == 0 ? 1024 : 4096);
    EXPECT_EQ(row.at("count"), i == 0 ? 256 : 1024);
    EXPECT_EQ(row.at("type"), "f32");
    EXPECT_EQ(row.at("redop"), "sum");
    EXPECT_EQ(row.at("wrong"), 0);
    for (const char* column : {"time_us", "algbw_gbs", "busbw_gbs", "limit_gbs"})
      EXPECT_GT(row.at(column).get<double>(), 0) << column;
    const double bandwidth = row.at("bytes").get<double>() / row.at("time_us").get<double>() / 1e3;
    EXPECT_NEAR(row.at("algbw_gbs").get<double>() / bandwidth, 1, 1e-6);
    // Of two workers, 2 (n-1)/n is 1.
    EXPECT_NEAR(row.at("busbw_gbs").get<double>() / bandwidth, 1, 1e-6);
  }
}

TEST(Bench, SetsAllAlgorithmsSideBySide) {
  std::multiset<std::string> seen;
  for (const json& row : rows({"--algorithm", "all"})) {
    seen.insert(row.at("algorithm").get<std::string>());
    EXPECT_EQ(row.at("wrong"), 0) << row;
  }
  const auto planned = collective::planned_algorithms();
  EXPECT_EQ(seen.size(), 2 * planned.size());
  for (const collective::Algorithm algorithm : planned) EXPECT_EQ(seen.count(algorithm.name()), 2U);
}

TEST(Bench, TakesAlgorithmsInTheOrderGiven) {
  const auto found = rows({"--algorithm", "ring,tree", "-e", "1K"});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].at("algorithm"), "ring");
  EXPECT_EQ(found[1].at("algorithm"), "tree");
}

TEST(Bench, MeasuresEveryCollectiveTypeAndOperation) {
  for (const std::string& name : collective::collective_names())
    for (const json& row : rows({"-n", "3"}, name)) {
      EXPECT_EQ(row.at("op"), name);
      EXPECT_EQ(row.at("wrong"), 0) << row;
    }
  for (const std::string type : {"f64", "f16", "bf16", "i32", "i64", "u8"})
    for (const json& row : rows({"--type", type, "--redop", "max", "-e", "1K"})) {
      EXPECT_EQ(row.at("type"), type);
      EXPECT_EQ(row.at("redop"), "max");
      EXPECT_EQ(row.at("wrong"), 0) << row;
    }
}

TEST(Bench, PredictsTimesWhereMessagesAreSent) {
  for (const json& row : rows({"--transport", "tcp", "--algorithm", "all"})) {
    EXPECT_EQ(row.at("transport"), "tcp");
    EXPECT_EQ(row.at("wrong"), 0) << row;
    EXPECT_GT(row.at("predicted_us").get<double>(), 0) << row;
  }
  for (const std::string shared : {"shm", "hybrid"})
    for (const json& row : rows({"--transport", shared}))
      EXPECT_FALSE(row.contains("predicted_us")) << row;
}

TEST(Bench, SaysWhatAutoMeasuredWhenAsked) {
  const CommandResult outcome =
      lockstep_command({"bench", "all_reduce", "-b", "1K", "-e", "1K", "--batches", "1",
                        "--transport", "tcp", "--verbose"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("auto: measured latency"), std::string::npos) << outcome.err;
}

TEST(Bench, PrintsATableForPeople) {
  const CommandResult outcome =
      lockstep_command({"bench", "all_reduce", "-b", "1K", "-e", "1K", "--batches", "1"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"algbw", "busbw", "#wrong", "of the", "2 workers over shm", "direct"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " is not in " << outcome.out;
}

TEST(Bench, OfABarrierHasNoSizesAndNoBandwidths) {
  const auto found = rows({}, "barrier");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_GT(found[0].at("time_us").get<double>(), 0);
  for (const char* column : {"bytes", "count", "type", "redop", "algbw_gbs", "limit_gbs"})
    EXPECT_FALSE(found[0].contains(column)) << column;
  const CommandResult table = lockstep_command({"bench", "barrier", "-n", "1", "--batches", "1"});
  EXPECT_NE(table.out.find("# barrier, 1 worker over shm\n"), std::string::npos) << table.out;
  EXPECT_EQ(table.out.find("%"), std::string::npos) << table.out;
}

TEST(Bench, OfACollectiveThatDoesNotReduceHasNoOperation) {
  for (const json& row : rows({}, "all_gather")) EXPECT_EQ(row.at("redop"), "none");
}

TEST(Bench, WorksAloneWithFreshBucketsAndWithMoreWorkersThanProcessors) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"-n", "1"}, {"--fresh"}, {"--check"}, {"-n", "8"}})
    for (const json& row : rows(flags)) EXPECT_EQ(row.at("wrong"), 0) << row;
}

TEST(Bench, RefusesWhatDoesNotExistAndSuggestsTheNearest) {
  EXPECT_TRUE(refuses({"bench", "all_reduec"}, "did you mean 'all_reduce'?"));
  const auto refused = [](std::vector<std::string> flags, const std::string& why) {
    flags.insert(flags.begin(), {"bench", "all_reduce"});
    return refuses(flags, why);
  };
  EXPECT_TRUE(refused({"--algorithm", "rign"}, "did you mean 'ring'?"));
  EXPECT_TRUE(refused({"--algorithm", "ring,"}, "no such algorithm"));
  EXPECT_TRUE(refused({"--transport", "tpc"}, "did you mean 'tcp'?"));
  EXPECT_TRUE(refused({"--type", "f23"}, "did you mean 'f32'?"));
  EXPECT_TRUE(refused({"--redop", "summ"}, "did you mean 'sum'?"));
  EXPECT_TRUE(refused({"--worker", "2"}, "did you mean '--workers'?"));
}

TEST(Bench, RefusesSizesAndNumbersThatCannotBe) {
  const auto refused = [](std::vector<std::string> flags, const std::string& why) {
    flags.insert(flags.begin(), {"bench", "all_reduce"});
    return refuses(flags, why);
  };
  EXPECT_TRUE(refused({"-b", "2M", "-e", "1M"}, "-b 2M -e 1M"));
  EXPECT_TRUE(refused({"-b", "1", "-e", "3"}, "at least an element of f32"));
  EXPECT_TRUE(refused({"-b", "big"}, "not a size"));
  EXPECT_TRUE(refused({"-f", "1"}, "factor of at least 2"));
  EXPECT_TRUE(refused({"-n", "0"}, "expected 1 to 256 workers"));
  EXPECT_TRUE(refused({"-n", "257"}, "expected 1 to 256 workers"));
  EXPECT_TRUE(refused({"--batches", "0"}, "--batches 0"));
}

TEST(Bench, RefusesMpiWithoutMpirunAndAnEngineWithoutMpi) {
  for (const std::string transport : {"mpi", "hybrid-mpi"})
    EXPECT_TRUE(refuses({"bench", "all_reduce", "--transport", transport}, "mpirun -n 2"));
  EXPECT_TRUE(refuses({"bench", "all_reduce", "--algorithm", "engine"}, "mpi and nccl have"));
}

TEST(Bench, RefusesNcclWithoutADevice) {
  for (const std::string workers : {"1", "2"})
    EXPECT_TRUE(refuses({"bench", "all_reduce", "-n", workers, "--transport", "nccl"},
                        "there is no CUDA device for it"));
}

}  // namespace
}  // namespace lockstep
