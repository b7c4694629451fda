#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/error.h"
#include "net/acceptor.h"
#include "net/rendezvous.h"

namespace lockstep::net {

/// This worker was asked to stop while it waited for other workers.
class Interrupted : public Error {
 public:
  using Error::Error;
};

struct TcpRendezvousOptions {
  int rank = 0;
  int world_size = 1;
  /// The address at which rank 0 listens and to which the other ranks connect.
  std::string host;
  uint16_t port = 0;
  /// Rank 0 listens at the first of these that is free if `port` is in use; the other ranks try
  /// `port` and all of these in turn, until one accepts their key.
  std::vector<uint16_t> spare_ports = {};
  /// A secret that only the workers of the job know.
  std::string key;
  /// How long to wait for all ranks: to connect, and in every `gather`.
  double timeout_seconds = 60;
  Log log = {};
  /// A descriptor that becomes readable when this worker is asked to stop; -1: none.
  int stop = -1;
};

/// Connects every rank of a job with rank 0 and returns when all have connected. Throws BadInput (a
/// rank out of range, a port in use, the key of another job), Mismatch (two workers with the same
/// rank, or with different world sizes), Timeout (with the ranks that did not connect), PeerLost
/// (with a rank that ended meanwhile) and Interrupted. Mismatch, Timeout and PeerLost are thrown on
/// all ranks that have connected.
///
///     const auto rendezvous = rendezvous_over_tcp({.rank = 1, .world_size = 2, .host = "node0",
///                                                  .port = 29500, .key = "secret"});
///     const std::vector<std::string> names = rendezvous->gather("my name");
std::unique_ptr<Rendezvous> rendezvous_over_tcp(const TcpRendezvousOptions& options);

}  // namespace lockstep::net
