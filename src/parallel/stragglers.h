#pragma once

#include <vector>

#include "collective/communicator.h"
#include "lockstep/ddp.h"

namespace lockstep::parallel {

/// Finds out who made the others wait. In every step each worker waits, from the moment its buckets
/// are ready, until all workers' are: whoever comes last waits least, and the others waited for it
/// as much longer as they did. How long a step takes is the same for all, and tells nothing.
class Stragglers {
 public:
  void add(double seconds_waited) { waits_.push_back(seconds_waited); }

  /// Of all steps since the last report. Collective: every rank has added equally many steps.
  StragglerReport report(collective::Communicator& group);

 private:
  std::vector<double> waits_;  ///< by step
};

}  // namespace lockstep::parallel
