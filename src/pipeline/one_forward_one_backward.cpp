// One forward pass, one backward pass, by turns (PipeDream-Flush; Narayanan et al., 2021). A stage
// first does as many forward passes as there are stages after it, so that the gradient of its first
// micro-batch is on its way when it begins to alternate. It takes as long as gpipe, but activations
// are freed as early as possible: in flight are at most as many micro-batches as there are stages.
#include "pipeline/schedule.h"

namespace lockstep::pipeline {
namespace {

std::vector<Action> one_forward_one_backward(const PipelineShape& shape, int stage) {
  return alternate(passes(Action::Kind::forward, stage, shape.micro_batches),
                   passes(Action::Kind::backward, stage, shape.micro_batches),
                   shape.stages - 1 - stage);
}

[[maybe_unused]] const bool one_forward_one_backward_added = pipeline_schedules().add(
    {.name = "1f1b",
     .about = "after a warm-up one forward and one backward pass by turns; frees memory early",
     .bubble = "(S-1) / (M+S-1)",
     .in_flight = "min(S-s, M)",
     .order = one_forward_one_backward});

}  // namespace
}  // namespace lockstep::pipeline
