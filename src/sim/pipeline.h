#pragma once

#include <vector>

#include "pipeline/schedule.h"

namespace lockstep::sim {

/// How long a pipeline's actions take, in seconds, by part. Messages of the last part's output and
/// of the first part's gradient do not exist.
struct PipelineCosts {
  std::vector<double> forward;
  std::vector<double> backward;
  std::vector<double> output;    ///< a message with the part's output
  std::vector<double> gradient;  ///< a message with the gradient of the part's input
};

struct TimedAction {
  pipeline::Action action;
  double begin = 0;
  double end = 0;
};

/// What a simulated schedule takes.
struct PipelineTiming {
  double seconds = 0;  ///< until the last stage has finished
  std::vector<std::vector<TimedAction>> stages;
  std::vector<double> busy;    ///< by stage: seconds in which it computes
  double bubble = 0;           ///< share of all stages' time in which they do not compute
  std::vector<int> in_flight;  ///< pipeline::memory_in_flight
};

/// Runs a schedule on stages with these costs. Sending takes no time of a stage; a message arrives
/// its seconds after it was sent, however many others are under way. Throws BadInput for costs that
/// are not finite, negative or not one for each part, and for a schedule that never ends.
PipelineTiming simulate(const pipeline::PipelineSchedule& schedule, const PipelineCosts& costs);

}  // namespace lockstep::sim
