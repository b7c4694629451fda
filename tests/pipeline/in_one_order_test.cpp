#include "pipeline/in_one_order.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

namespace lockstep::pipeline {
namespace {

using Kind = Action::Kind;

TEST(InOneOrder, EveryScheduleHasAllActionsInTheOrderOfTheirStages) {
  for (const auto& row : pipeline_schedules())
    for (const int stages : {1, 2, 3, 4}) {
      const PipelineShape shape{stages, stages == 1 ? 1 : row->usual_parts_per_stage, 2 * stages};
      const PipelineSchedule schedule = make_schedule(*row, shape);
      std::map<int, std::vector<Action>> by_stage;
      for (const Action& action : in_one_order(schedule))
        by_stage[shape.stage_of(action.part)].push_back(action);
      for (int stage = 0; stage < stages; ++stage)
        EXPECT_EQ(by_stage[stage], schedule.actions[static_cast<size_t>(stage)]) << row->name;
    }
}

TEST(InOneOrder, EveryMessageIsSentBeforeItIsReceived) {
  for (const auto& row : pipeline_schedules()) {
    const PipelineShape shape{3, row->usual_parts_per_stage, 6};
    std::set<std::tuple<Kind, int, int>> sent;
    for (const Action& action : in_one_order(make_schedule(*row, shape))) {
      if (action.kind == Kind::send_output)
        sent.emplace(Kind::receive_input, action.part + 1, action.micro_batch);
      if (action.kind == Kind::send_gradient)
        sent.emplace(Kind::receive_gradient, action.part - 1, action.micro_batch);
      if (action.receives()) {
        EXPECT_TRUE(sent.contains({action.kind, action.part, action.micro_batch}))
            << row->name << ": " << to_string(action);
      }
    }
  }
}

// Otherwise a thread that runs all stages would give one device after another all its work.
TEST(InOneOrder, StagesTakeTurns) {
  const PipelineSchedule schedule = make_schedule(pipeline_schedules().at("gpipe"), {2, 1, 4});
  std::string passes;
  for (const Action& action : in_one_order(schedule))
    if (action.kind == Kind::forward) passes += static_cast<char>('0' + action.part);
  EXPECT_EQ(passes, "01010101");
}

}  // namespace
}  // namespace lockstep::pipeline
