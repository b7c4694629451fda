#include "observe/trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::observe {
namespace {

using nlohmann::json;

TEST(ChromeTrace, HasANamedTrackForEachProcessAndTrack) {
  const json trace = json::parse(chrome_trace({{"gpu", "copies", "A \"1\"", 7.5, 8},
                                               {"gpu", "compute", "A^2", 8, 9},
                                               {"cpu", "compute", "sum", 7, 7.25},
                                               {"gpu", "copies", "B", 8, 8.5}}));
  std::map<std::pair<int, int>, std::string> tracks;
  std::map<int, std::string> processes;
  std::vector<std::string> spans;
  for (const json& event : trace.at("traceEvents")) {
    const int process = event.at("pid"), track = event.at("tid");
    if (event.at("ph") == "M" && event.at("name") == "process_name")
      processes[process] = event.at("args").at("name");
    else if (event.at("ph") == "M")
      tracks[{process, track}] = event.at("args").at("name");
    else
      spans.push_back(fmt::format("{}/{}/{} {}+{}", processes.at(process),
                                  tracks.at({process, track}), event.at("name").get<std::string>(),
                                  event.at("ts").get<double>(), event.at("dur").get<double>()));
  }
  EXPECT_EQ(spans, (std::vector<std::string>{
                       "gpu/copies/A \"1\" 500000+500000", "gpu/compute/A^2 1000000+1000000",
                       "cpu/compute/sum 0+250000", "gpu/copies/B 1000000+500000"}));
}

TEST(ChromeTrace, WithoutSpansIsEmpty) {
  EXPECT_TRUE(json::parse(chrome_trace({})).at("traceEvents").empty());
}

}  // namespace
}  // namespace lockstep::observe
