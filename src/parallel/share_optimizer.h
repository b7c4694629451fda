#pragma once

#include <torch/optim/optimizer.h>

#include "collective/communicator.h"

namespace lockstep::parallel {

/// Collective: all workers get the state and options of `root`'s optimizer, which must have the
/// same parameters.
void share_optimizer(torch::optim::Optimizer& optimizer, int root, collective::Communicator& group);

}  // namespace lockstep::parallel
