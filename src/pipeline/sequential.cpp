// Plain model parallelism: a micro-batch goes forwards through all stages and backwards again
// before the next one begins. The first stage begins the next micro-batch when it has finished this
// one, as the last stage to do so: only one stage computes at any time.
#include "pipeline/schedule.h"

namespace lockstep::pipeline {
namespace {

std::vector<Action> sequential(const PipelineShape& shape, int stage) {
  return alternate(passes(Action::Kind::forward, stage, shape.micro_batches),
                   passes(Action::Kind::backward, stage, shape.micro_batches), 0);
}

[[maybe_unused]] const bool sequential_added =
    pipeline_schedules().add({.name = "sequential",
                              .about = "one micro-batch at a time; only one stage computes",
                              .bubble = "(S-1) / S",
                              .in_flight = "1",
                              .order = sequential});

}  // namespace
}  // namespace lockstep::pipeline
