#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/agreement.h"
#include "launch/job.h"
#include "transport/transport.h"

namespace lockstep::launch {

/// Resolves "auto": hybrid-mpi if MPI launched the job and this build has MPI, else hybrid; other
/// names stay as they are. Throws BadInput for an unknown name.
std::string resolve_transport(const std::string& name, const Job& job);

struct ConnectOptions {
  std::string transport = "hybrid";
  int streams = 1;                 ///< TCP connections for every pair of ranks
  double silence_seconds = 10;     ///< a host that sends no heartbeat for this long counts as lost
  double meeting_seconds = 60;     ///< rendezvous timeout: for all workers to connect
  int stop = -1;                   ///< becomes readable to cancel the rendezvous
  std::optional<int> device = {};  ///< number of the one whose memory is carried; else local_rank
  Facts facts = {};                ///< what must be equal on all workers, besides the above
};

/// Connects this worker with all others of its job. Throws BadInput for a transport that does not
/// exist or does not fit the job, Mismatch if workers have different options, and whatever
/// `rendezvous_over_tcp` and the transports throw.
std::unique_ptr<transport::Transport> connect(const Job& job, const ConnectOptions& options);

}  // namespace lockstep::launch
