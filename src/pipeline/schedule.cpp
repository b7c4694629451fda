// Makes schedules from the orders of passes that rows give. Every pass receives what it needs right
// before it and sends its result right after it. The invariant: between two stages messages are
// received in the order in which they are sent, because the passes that receive them come in the
// same order as the passes that send them; rows keep it by going through parts and micro-batches in
// the same order on every stage.
#include "pipeline/schedule.h"

#include <algorithm>

#include "lockstep/error.h"

namespace lockstep::pipeline {
namespace {

using Kind = Action::Kind;

void check_between(const char* what, int value, int most) {
  if (value < 1 || value > most)
    throw BadInput("{} {} in a pipeline: expected 1 to {}", value, what, most);
}

std::vector<Action> with_messages(const PipelineShape& shape, const std::vector<Action>& order) {
  std::vector<Action> actions;
  const auto add = [&](Kind kind, const Action& pass) {
    actions.push_back({kind, pass.part, pass.micro_batch});
  };
  const bool alone = shape.stages == 1;
  for (const Action& pass : order) {
    const bool forward = pass.kind == Kind::forward;
    const bool after_another = !alone && pass.part > 0;
    const bool before_another = !alone && pass.part < shape.parts() - 1;
    if (forward ? after_another : before_another)
      add(forward ? Kind::receive_input : Kind::receive_gradient, pass);
    actions.push_back(pass);
    if (forward ? before_another : after_another)
      add(forward ? Kind::send_output : Kind::send_gradient, pass);
  }
  return actions;
}

}  // namespace

Table<PipelineScheduleRow>& pipeline_schedules() {
  static Table<PipelineScheduleRow> table("pipeline schedule");
  return table;
}

std::string to_string(const Action& action) {
  const auto name = [&] {
    switch (action.kind) {
      case Kind::receive_input:
        return "receive_input";
      case Kind::forward:
        return "forward";
      case Kind::send_output:
        return "send_output";
      case Kind::receive_gradient:
        return "receive_gradient";
      case Kind::backward:
        return "backward";
      case Kind::send_gradient:
        return "send_gradient";
      case Kind::scatter:
        return "scatter";
      case Kind::collect:
        return "collect";
      case Kind::finish:
        return "finish";
    }
    return "unknown action";
  };
  return fmt::format("{} of part {}, micro-batch {}", name(), action.part, action.micro_batch);
}

int peer_of(const PipelineShape& shape, const Action& action) {
  switch (action.kind) {
    case Kind::receive_input:
    case Kind::send_gradient:
      return shape.stage_of(action.part - 1);
    case Kind::send_output:
    case Kind::receive_gradient:
      return shape.stage_of(action.part + 1);
    default:
      return shape.stage_of(action.part);
  }
}

void check(const PipelineScheduleRow& row, const PipelineShape& shape) {
  check_between("stages", shape.stages, kMostStages);
  check_between("micro-batches", shape.micro_batches, kMostMicroBatches);
  check_between("parts per stage", shape.parts_per_stage, kMostPartsPerStage);
  if (row.usual_parts_per_stage == 1 && shape.parts_per_stage != 1)
    throw BadInput(
        "{} parts per stage: a stage of {} has 1 part; choose the schedule interleaved, or give no "
        "number of parts",
        shape.parts_per_stage, row.name);
  if (shape.micro_batches > kMostPasses / shape.parts())
    throw BadInput(
        "a pipeline of {} parts and {} micro-batches: expected at most {} of both "
        "multiplied; take fewer micro-batches",
        shape.parts(), shape.micro_batches, kMostPasses);
  row.check(shape);
}

PipelineSchedule make_schedule(const PipelineScheduleRow& row, const PipelineShape& shape) {
  check(row, shape);
  PipelineSchedule schedule{.shape = shape, .actions = {}};
  for (int stage = 0; stage < shape.stages; ++stage)
    schedule.actions.push_back(with_messages(shape, row.order(shape, stage)));
  return schedule;
}

std::vector<Action> alternate(const std::vector<Action>& forwards,
                              const std::vector<Action>& backwards, int ahead) {
  const size_t first = std::min(static_cast<size_t>(ahead), forwards.size());
  std::vector<Action> order(forwards.begin(), forwards.begin() + static_cast<ptrdiff_t>(first));
  size_t done = 0;
  for (size_t next = first; next < forwards.size(); ++next) {
    order.push_back(forwards[next]);
    order.push_back(backwards[done++]);
  }
  order.insert(order.end(), backwards.begin() + static_cast<ptrdiff_t>(done), backwards.end());
  return order;
}

std::vector<Action> passes(Action::Kind kind, int part, int micro_batches) {
  std::vector<Action> all;
  for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch)
    all.push_back({kind, part, micro_batch});
  return all;
}

std::vector<int> memory_in_flight(const PipelineSchedule& schedule) {
  std::vector<int> most;
  for (const auto& actions : schedule.actions) {
    int held = 0;
    int most_held = 0;
    for (const Action& action : actions) {
      if (action.kind == Kind::forward) most_held = std::max(most_held, ++held);
      if (action.kind == Kind::backward) --held;
    }
    most.push_back(most_held);
  }
  return most;
}

}  // namespace lockstep::pipeline
