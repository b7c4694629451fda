#pragma once

#include <vector>

#include "collective/communicator.h"
#include "lockstep/ddp.h"

namespace lockstep::parallel {

/// Finds stragglers. In every step each worker waits from the moment its buckets are full until
/// those of all workers are. The straggler waits least; how much longer the others waited is the
/// time that it cost them. (The duration of a step is the same on all workers, so it does not show
/// stragglers.)
class Stragglers {
 public:
  void add(double seconds_waited) { waits_.push_back(seconds_waited); }

  /// The report of all steps since the last report. Collective: every rank must have added the same
  /// number of steps.
  StragglerReport report(collective::Communicator& group);

 private:
  std::vector<double> waits_;  ///< by step
};

}  // namespace lockstep::parallel
