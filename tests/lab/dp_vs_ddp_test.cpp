#include "lab/dp_vs_ddp.h"

#include <gtest/gtest.h>

#include "expect_error.h"

namespace lockstep::lab {
namespace {

using run::Json;

// Steps of 2 ms, of which `exchange` ms are exchange; those that warm up take longer.
std::vector<Json> events_of(int steps, double exchange, const Json& end) {
  std::vector<Json> events = {{{"event", "start"}}};
  double compute = 0, waited = 0;
  for (int step = 1; step <= steps; ++step) {
    const double factor = step <= kWarmUpSteps ? 100 : 1;
    compute += factor * (2 - exchange) / 1e3;
    waited += exchange / 1e3;
    events.push_back({{"event", "step"},
                      {"step", step},
                      {"spans", {{"forward", compute}, {"exchange", waited}}}});
  }
  events.push_back({{"event", "end"},
                    {"steps", steps},
                    {"model_sha256", "abc"},
                    {"bytes_by_kind", {{"gradients", 800 * steps}, {"buffers", 80 * steps}}}});
  events.back().update(end);
  return events;
}

Json peaks(std::vector<int64_t> bytes) {
  Json all = Json::array();
  for (const int64_t peak : bytes) all.push_back({{"peak", peak}});
  return all;
}

DpVsDdpRow dp_row() {
  return row_of(DataWay::dp, 3,
                events_of(20, 0.5,
                          {{"bytes_between_devices",
                            {{"replicated", 20 * 400},
                             {"scattered", 20 * 40},
                             {"gathered", 20 * 20},
                             {"reduced", 20 * 600}}},
                           {"memory_by_device", peaks({900, 300, 310})}}));
}

DpVsDdpRow ddp_row() {
  return row_of(DataWay::ddp, 4, events_of(20, 0.1, {{"memory_by_device", peaks({5, 6, 7, 6})}}));
}

TEST(DpVsDdp, TakesTimesAfterTheWarmUp) {
  EXPECT_NEAR(dp_row().seconds_per_step, 2e-3, 1e-9);
  EXPECT_NEAR(dp_row().waiting, 0.25, 1e-9);
  EXPECT_NEAR(ddp_row().waiting, 0.05, 1e-9);
}

TEST(DpVsDdp, CountsBytesPerStepAndMemoryOfTheFirstDeviceAgainstTheOthers) {
  const DpVsDdpRow dp = dp_row();
  EXPECT_EQ(dp.replicated, 400);
  EXPECT_EQ(dp.gradients, 600);
  EXPECT_EQ(dp.first_moves, 1060);
  EXPECT_EQ(dp.other_moves, 530);
  EXPECT_EQ(dp.first_peak, 900);
  EXPECT_EQ(dp.other_peak, 310);
  const DpVsDdpRow ddp = ddp_row();
  EXPECT_EQ(ddp.first_moves, 2 * 880 / 4);  // sent and received
  EXPECT_EQ(ddp.other_moves, ddp.first_moves);
  EXPECT_EQ(ddp.other_peak, 7);
}

TEST(DpVsDdp, RefusesRunsThatHaveNotEndedOrAreTooShort) {
  const std::vector<Json> unfinished = {{{"event", "start"}}};
  EXPECT_TRUE(
      has(message_of<Error>([&] { row_of(DataWay::ddp, 1, unfinished); }), "no event \"end\""));
  const std::vector<Json> brief = events_of(kWarmUpSteps, 0, Json::object());
  EXPECT_TRUE(
      has(message_of<Error>([&] { row_of(DataWay::ddp, 1, brief); }), "expected 7 or more"));
}

TEST(DpVsDdp, ConcludesFromTheMostDevicesThatShareNoCores) {
  DpVsDdpRow one, dp = dp_row(), ddp = ddp_row();
  dp.devices = ddp.devices = 2;
  dp.seconds_per_step = 3e-3;
  DpVsDdpRow dp4 = dp, ddp4 = ddp;
  dp4.devices = ddp4.devices = 4;
  dp4.shares_cores = ddp4.shares_cores = true;
  const std::vector<std::string> sentences = conclusions({one, dp, ddp, dp4, ddp4});
  ASSERT_EQ(sentences.size(), 3U);
  EXPECT_TRUE(sentences[0].starts_with("On 2 devices DDP is 1.50 times as fast as DataParallel"))
      << sentences[0];
  EXPECT_NE(sentences[1].find("25 % of the time"), std::string::npos) << sentences[1];
  EXPECT_NE(sentences[2].find("900 B at the peak, the others 310 B"), std::string::npos)
      << sentences[2];
}

TEST(DpVsDdp, DoubtsAnEfficiencyThatCannotBe) {
  DpVsDdpRow dp = dp_row(), ddp = ddp_row();
  ddp.efficiency = 2.25;
  const std::vector<std::string> sentences = conclusions({dp, ddp});
  ASSERT_GE(sentences.size(), 3U);
  EXPECT_NE(sentences[2].find("225 % (DDP on 4 devices) is not credible"), std::string::npos)
      << sentences[2];
}

TEST(DpVsDdp, SaysSoIfDataParallelIsFaster) {
  DpVsDdpRow dp = dp_row(), ddp = ddp_row();
  dp.seconds_per_step = 1e-3;
  EXPECT_NE(conclusions({dp, ddp}).front().find("DataParallel is 2.00 times as fast as DDP"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::lab
