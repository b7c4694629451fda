// `lockstep matpow`, as a person would run it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "lockstep_command.h"

namespace lockstep {
namespace {

using nlohmann::json;

std::vector<json> matpow_rows(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"matpow", "--json"});
  const CommandResult outcome = lockstep_command(flags);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  std::vector<json> rows;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) rows.push_back(json::parse(line));
  return rows;
}

TEST(Matpow, PrintsAnObjectForEachNumberOfDevices) {
  const auto rows = matpow_rows({"--size", "128"});
  ASSERT_EQ(rows.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(rows[i].at("devices"), i + 1);
    EXPECT_EQ(rows[i].at("products"), 4);
    EXPECT_EQ(rows[i].at("tile"), 0);
    for (const char* figure : {"seconds", "compute_seconds", "copy_seconds", "gflops", "of_peak"})
      EXPECT_GT(rows[i].at(figure).get<double>(), 0) << figure;
    EXPECT_LT(rows[i].at("max_error").get<double>(), 1e-4);
  }
}

TEST(Matpow, TakesTheNumbersOfDevicesAndTheMethod) {
  const auto rows = matpow_rows({"--size", "64", "--devices", "2", "--naive"});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at("devices"), 2);
  EXPECT_EQ(rows[0].at("products"), 9);
}

TEST(Matpow, KeepsADevicesLimitByTilesAndWritesATrace) {
  Child child(
      {"matpow", "--json", "--size", "300", "--device-memory", "512KiB", "--trace", "trace.json"});
  const CommandResult outcome = child.wait();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    const json row = json::parse(line);
    EXPECT_GT(row.at("tile"), 0);
    EXPECT_LE(row.at("peak_bytes"), 512 << 10);
  }
  size_t spans = 0;
  const json trace = json::parse(read_file(child.folder() / "trace.json"));
  for (const json& event : trace.at("traceEvents")) spans += event.at("ph") == "X" ? 1 : 0;
  EXPECT_GT(spans, 100U);
}

TEST(Matpow, PrintsATableForPeople) {
  const CommandResult outcome = lockstep_command({"matpow", "--size", "64", "--power", "3"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"A^3 + B^3 of 64 x 64", "copy out", "of peak", "max error", "times"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " is not in " << outcome.out;
}

TEST(Matpow, ComparesFewerDevicesWithMoreInAnyOrder) {
  const CommandResult outcome =
      lockstep_command({"matpow", "--size", "64", "--power", "3", "--devices", "2,1", "--seed",
                        "9223372036854775807", "--repeat", "2"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("2 devices are "), std::string::npos) << outcome.out;
}

TEST(Matpow, RefusesWhatCannotBe) {
  const auto refused = [](std::vector<std::string> flags, const std::string& why) {
    flags.insert(flags.begin(), "matpow");
    return refuses(flags, why);
  };
  EXPECT_TRUE(refused({"--power", "0"}, "--power 0"));
  EXPECT_TRUE(refused({"--size", "900000"}, "at most --size"));
  EXPECT_TRUE(refused({"--device", "virtuel"}, "did you mean 'virtual'"));
  EXPECT_TRUE(refused({"--device", "tpu"}, "there are: cpu, cuda, virtual"));
  EXPECT_TRUE(refused({"--device", "cpu", "--devices", "1,2"}, "--device virtual"));
  EXPECT_TRUE(refused({"--device", "cpu", "--device-memory", "1M"}, "--device-memory"));
  EXPECT_TRUE(refused({"--devices", "3"}, "--devices 3"));
  EXPECT_TRUE(refused({"--device-memory", "1K"}, "at least"));
  EXPECT_TRUE(refused({"--size", "64", "--scale", "1e8"}, "A^5 (product 3 of 4)"));
  EXPECT_TRUE(refused({"--sice", "64"}, "did you mean '--size'?"));
}

}  // namespace
}  // namespace lockstep
