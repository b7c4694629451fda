#pragma once

#include <vector>

#include "pipeline/schedule.h"

namespace lockstep::pipeline {

/// The actions of all stages in one order, for one thread that runs all stages: every message is
/// received after it is sent, and stages take turns, so that devices which compute while the thread
/// goes on are busy at once.
std::vector<Action> in_one_order(const PipelineSchedule& schedule);

}  // namespace lockstep::pipeline
