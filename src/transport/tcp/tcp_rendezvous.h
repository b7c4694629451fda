#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/error.h"
#include "transport/rendezvous.h"
#include "transport/tcp/doorman.h"

namespace lockstep::transport {

/// This worker was asked to stop while it waited for others to come.
class Interrupted : public Error {
 public:
  using Error::Error;
};

struct Meeting {
  int rank = 0;
  int world = 1;
  /// Where rank 0 listens and the others find it.
  std::string host;
  uint16_t port = 0;
  /// What only the job's own workers know.
  std::string key;
  /// How long to wait for everyone, now and in every `gather`.
  double seconds = 60;
  Log log = {};
  /// A descriptor that is readable once this worker is asked to stop; -1: it never is.
  int stop = -1;
};

/// All ranks of a job meet at one address: returns when everyone is there. Throws BadInput (a rank
/// out of range, a port in use, another job's key), Mismatch (two workers with one rank, or with
/// different world sizes: on all ranks that have come), Timeout (with the ranks that have not come,
/// on all that have), PeerLost (with a rank that went while others were waiting) and Interrupted.
std::unique_ptr<Rendezvous> meet_over_tcp(const Meeting& meeting);

}  // namespace lockstep::transport
