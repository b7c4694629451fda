#pragma once

#include "pipeline/schedule.h"

namespace lockstep::pipeline {

/// How many pipelines so many workers are. Throws BadInput unless they are a multiple of the
/// stages, or one worker, which then computes all stages.
int pipelines_of(const PipelineShape& shape, int workers);

/// How many stages each of them computes.
int stages_of_worker(const PipelineShape& shape, int workers);

}  // namespace lockstep::pipeline
