// 1f1b with several parts per stage, as in Megatron-LM (Narayanan et al., 2021). A micro-batch goes
// around all stages once for every part of a stage, so that the pipeline fills and drains in steps
// of one part, which is shorter than a stage: the bubble shrinks, while more messages are sent and
// more is in flight.
//
// Passes are made in *groups* of as many micro-batches as there are stages: a stage takes a group
// through its first part, then through its second one, and so on; backwards from its last part to
// its first. A group must be full, or its micro-batches would return to the first stage too late.
//
// Forward passes are ahead by the other parts of a group, and by two for every stage after this
// one: that is how long it takes for the first gradient to come back from the last stage.
#include "lockstep/error.h"
#include "pipeline/schedule.h"

namespace lockstep::pipeline {
namespace {

std::vector<Action> passes_by_groups(Action::Kind kind, const PipelineShape& shape, int stage) {
  std::vector<Action> all;
  for (int group = 0; group < shape.micro_batches; group += shape.stages)
    for (int turn = 0; turn < shape.parts_per_stage; ++turn) {
      const int round = kind == Action::Kind::forward ? turn : shape.parts_per_stage - 1 - turn;
      for (int member = 0; member < shape.stages; ++member)
        all.push_back({kind, round * shape.stages + stage, group + member});
    }
  return all;
}

std::vector<Action> interleaved(const PipelineShape& shape, int stage) {
  const int ahead = 2 * (shape.stages - 1 - stage) + (shape.parts_per_stage - 1) * shape.stages;
  return alternate(passes_by_groups(Action::Kind::forward, shape, stage),
                   passes_by_groups(Action::Kind::backward, shape, stage), ahead);
}

void check_groups(const PipelineShape& shape) {
  if (shape.micro_batches % shape.stages != 0)
    throw BadInput(
        "{} micro-batch{} on {} stages: interleaved needs a multiple of the stages, such "
        "as {}; or choose 1f1b",
        shape.micro_batches, shape.micro_batches == 1 ? "" : "es", shape.stages,
        (shape.micro_batches / shape.stages + 1) * shape.stages);
}

[[maybe_unused]] const bool interleaved_added = pipeline_schedules().add(
    {.name = "interleaved",
     .about = "1f1b with several parts per stage; a smaller bubble for more messages and memory",
     .bubble = "(S-1) / (v M+S-1)",
     .in_flight = "min(2 (S-1-s) + (v-1) S + 1, v M) parts",
     .order = interleaved,
     .usual_parts_per_stage = 2,
     .check = check_groups});

}  // namespace
}  // namespace lockstep::pipeline
