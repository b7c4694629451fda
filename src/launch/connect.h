#pragma once

#include <memory>
#include <string>

#include "base/agreement.h"
#include "launch/job.h"
#include "transport/transport.h"

namespace lockstep::launch {

/// What "auto" stands for in a job: hybrid-mpi where an MPI launched it and this build has one,
/// else hybrid; any other name is itself. Throws BadInput for a name that does not exist.
std::string resolve_transport(const std::string& name, const Job& job);

struct ConnectOptions {
  std::string transport = "hybrid";
  int streams = 1;              ///< TCP connections for every pair of ranks
  double silence_seconds = 10;  ///< a host that sends no heartbeat for this long counts as lost
  double meeting_seconds = 60;  ///< for all workers to come
  int stop = -1;                ///< readable once this worker is asked to stop meeting
  Facts facts = {};             ///< what all must hold alike, besides all of the above
};

/// Connects this worker with all others of its job. Throws BadInput for a transport that does not
/// exist or does not fit the job; Mismatch where workers do not want the same; what `meet_over_tcp`
/// and the transports throw.
std::unique_ptr<transport::Transport> connect(const Job& job, const ConnectOptions& options);

}  // namespace lockstep::launch
