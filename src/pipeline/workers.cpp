#include "pipeline/workers.h"

#include "lockstep/error.h"

namespace lockstep::pipeline {

int pipelines_of(const PipelineShape& shape, int workers) {
  if (workers == 1) return 1;
  if (workers % shape.stages != 0)
    throw BadInput(
        "--workers {}: cannot be divided into pipelines of {} stages (--stages); expected a "
        "multiple of {}, or 1: one worker then computes all stages",
        workers, shape.stages, shape.stages);
  return workers / shape.stages;
}

int stages_of_worker(const PipelineShape& shape, int workers) {
  return workers == 1 ? shape.stages : 1;
}

}  // namespace lockstep::pipeline
