#pragma once

#include <vector>

#include "pipeline/schedule.h"

namespace lockstep::pipeline {

/// What one worker does that has the whole model on each of several devices (data parallelism in
/// one process): micro-batch m is computed on device m modulo `devices`. As many micro-batches as
/// there are devices are a *group*: all are scattered, then all computed forwards, then all
/// backwards, so that devices which compute while the worker goes on are busy at once. Then each is
/// collected and finished. Each kind of action is in the order of micro-batches. A pure function.
std::vector<Action> in_groups(int micro_batches, int devices);

}  // namespace lockstep::pipeline
