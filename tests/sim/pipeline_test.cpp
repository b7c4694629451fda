#include "sim/pipeline.h"

#include <gtest/gtest.h>

#include <cmath>

#include "expect_error.h"

namespace lockstep::sim {
namespace {

using pipeline::Action;
using pipeline::PipelineSchedule;
using pipeline::PipelineShape;

PipelineSchedule pipeline_of(const std::string& name, const PipelineShape& shape) {
  return make_schedule(pipeline::pipeline_schedules().at(name), shape);
}

// All parts alike.
PipelineCosts even_costs(const PipelineShape& shape, double forward, double backward,
                         double message = 0) {
  const auto parts = static_cast<size_t>(shape.parts());
  return {std::vector(parts, forward), std::vector(parts, backward), std::vector(parts, message),
          std::vector(parts, message)};
}

PipelineTiming even_timing(const std::string& name, const PipelineShape& shape,
                           double message = 0) {
  return simulate(pipeline_of(name, shape), even_costs(shape, 1, 2, message));
}

TEST(Pipeline, BubbleOfGpipeAnd1f1bIsExactlyThatOfTheFormula) {
  for (const char* name : {"gpipe", "1f1b"})
    for (int stages = 1; stages <= 8; ++stages)
      for (int micro_batches = 1; micro_batches <= 16; ++micro_batches) {
        const PipelineTiming timing = even_timing(name, {stages, 1, micro_batches});
        EXPECT_EQ(timing.bubble, double(stages - 1) / (micro_batches + stages - 1))
            << name << " with S=" << stages << " M=" << micro_batches;
        EXPECT_EQ(timing.seconds, 3 * (micro_batches + stages - 1));
      }
}

TEST(Pipeline, BubbleOfInterleavedIsExactlyThatOfTheFormula) {
  for (int stages = 1; stages <= 8; ++stages)
    for (int parts = 1; parts <= 3; ++parts)
      for (int micro_batches = stages; micro_batches <= 16; micro_batches += stages) {
        const PipelineTiming timing = even_timing("interleaved", {stages, parts, micro_batches});
        EXPECT_EQ(timing.bubble, double(stages - 1) / (parts * micro_batches + stages - 1))
            << "S=" << stages << " v=" << parts << " M=" << micro_batches;
      }
}

TEST(Pipeline, OfSequentialStagesComputesOnOneStageAtATime) {
  const PipelineTiming timing = even_timing("sequential", {4, 1, 3});
  EXPECT_EQ(timing.seconds, 4 * 3 * 3);
  EXPECT_EQ(timing.bubble, 0.75);
  std::vector<std::pair<double, double>> passes;
  for (const auto& stage : timing.stages)
    for (const TimedAction& one : stage)
      if (one.action.computes()) passes.emplace_back(one.begin, one.end);
  std::sort(passes.begin(), passes.end());
  for (size_t i = 1; i < passes.size(); ++i) EXPECT_EQ(passes[i].first, passes[i - 1].second);
}

TEST(Pipeline, TimesEveryActionOfEveryStage) {
  const PipelineTiming timing = even_timing("1f1b", {2, 1, 1}, 0.5);
  using Kind = Action::Kind;
  const std::vector<TimedAction> expected = {{{Kind::receive_input, 1, 0}, 0, 1.5},
                                             {{Kind::forward, 1, 0}, 1.5, 2.5},
                                             {{Kind::backward, 1, 0}, 2.5, 4.5},
                                             {{Kind::send_gradient, 1, 0}, 4.5, 4.5}};
  ASSERT_EQ(timing.stages[1].size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(timing.stages[1][i].action, expected[i].action);
    EXPECT_EQ(timing.stages[1][i].begin, expected[i].begin);
    EXPECT_EQ(timing.stages[1][i].end, expected[i].end);
  }
  EXPECT_EQ(timing.seconds, 7);
  EXPECT_EQ(timing.busy, (std::vector<double>{3, 3}));
}

TEST(Pipeline, MessagesTakeTimeOnlyWhereSomeoneWaitsForThem) {
  EXPECT_EQ(even_timing("gpipe", {2, 1, 8}, 1).seconds, 3 * 9 + 2);
  EXPECT_EQ(even_timing("gpipe", {1, 1, 8}, 1).seconds, 3 * 8);
}

TEST(Pipeline, CostsAreThoseOfTheParts) {
  const PipelineShape shape{3, 1, 4};
  PipelineCosts costs = even_costs(shape, 1, 1);
  costs.forward[1] = 5;
  const PipelineTiming timing = simulate(pipeline_of("gpipe", shape), costs);
  EXPECT_EQ(timing.busy, (std::vector<double>{8, 24, 8}));
  EXPECT_EQ(timing.seconds, 1 + 4 * 5 + 1 + 4 + 2);
}

TEST(Pipeline, ReportsWhatIsInFlight) {
  EXPECT_EQ(even_timing("1f1b", {4, 1, 8}).in_flight, (std::vector<int>{4, 3, 2, 1}));
}

TEST(Pipeline, WithoutAnyTimeHasNoBubble) {
  const PipelineShape shape{4, 1, 8};
  EXPECT_EQ(simulate(pipeline_of("1f1b", shape), even_costs(shape, 0, 0)).bubble, 0);
}

TEST(Pipeline, RefusesCostsThatCannotBe) {
  const PipelineShape shape{4, 1, 8};
  const auto refused = [&](const PipelineCosts& costs, const char* why) {
    expect_bad_input([&] { simulate(pipeline_of("1f1b", shape), costs); }, {why});
  };
  refused(even_costs(shape, -1, 2), "times of forward passes of -1 s");
  refused(even_costs(shape, 1, std::nan("")), "times of backward passes of nan s");
  refused(even_costs(shape, 1, 2, INFINITY), "times of outputs' messages of inf s");
  refused(even_costs({3, 1, 8}, 1, 2), "3 times of forward passes of a pipeline of 4 parts");
}

TEST(Pipeline, NamesTheStageThatWaitsForeverInAScheduleOfOnesOwn) {
  PipelineSchedule schedule = pipeline_of("gpipe", {2, 1, 1});
  std::erase_if(schedule.actions[0], [](const Action& action) { return action.sends(); });
  expect_bad_input([&] { simulate(schedule, even_costs(schedule.shape, 1, 2)); },
                   {"never ends", "stage 0 waits forever in receive_gradient of part 0"});
}

}  // namespace
}  // namespace lockstep::sim
