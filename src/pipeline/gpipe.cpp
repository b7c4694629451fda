// All forward passes, then all backward passes (Huang et al., GPipe, 2019). Stages wait only while
// the pipeline fills and drains, but all micro-batches are in flight at once. Backward passes come
// in the order of micro-batches, not in the reverse order of the paper: gradients are added in that
// order.
#include "pipeline/schedule.h"

namespace lockstep::pipeline {
namespace {

std::vector<Action> gpipe(const PipelineShape& shape, int stage) {
  return alternate(passes(Action::Kind::forward, stage, shape.micro_batches),
                   passes(Action::Kind::backward, stage, shape.micro_batches), shape.micro_batches);
}

[[maybe_unused]] const bool gpipe_added =
    pipeline_schedules().add({.name = "gpipe",
                              .about = "all forward passes, then all backward passes",
                              .bubble = "(S-1) / (M+S-1)",
                              .in_flight = "M",
                              .order = gpipe});

}  // namespace
}  // namespace lockstep::pipeline
