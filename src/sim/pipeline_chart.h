#pragma once

#include <string>

#include "pipeline/schedule.h"
#include "sim/pipeline.h"

namespace lockstep::sim {

/// A Gantt chart for a terminal of this width: time goes to the right, and each stage has a row, or
/// one for each of its parts. "3>>" is a forward pass of micro-batch 3, "3<<" its backward pass,
/// and dots are time in which the stage waits. Of many stages or a long time it shows the beginning
/// and says how much it leaves out.
std::string sketch_pipeline(const pipeline::PipelineShape& shape, const PipelineTiming& timing,
                            int columns);

/// The same as an SVG, with all of it. Boxes have the numbers of micro-batches, where there is
/// room. `times` says which times were given. Throws BadInput if no pass takes any time.
std::string draw_pipeline(const pipeline::PipelineShape& shape, const PipelineTiming& timing,
                          const std::string& title, const std::string& times);

/// A round distance between marks on a time axis, of at least `least`: 1, 2 or 5 times a power
/// of 10.
double tick_step(double least);

/// The shortest and the longest time above 0 that a stage computes without a pause; 0 if none does.
struct PassLengths {
  double shortest = 0;
  double longest = 0;
};
PassLengths pass_lengths(const PipelineTiming& timing);

}  // namespace lockstep::sim
