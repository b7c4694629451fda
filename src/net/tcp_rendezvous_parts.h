#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "net/tcp_rendezvous.h"

// What rank 0's end of a rendezvous over TCP and the other ranks' ends share.
namespace lockstep::net {

/// Rank 0's end.
std::unique_ptr<Rendezvous> serve_rendezvous(const TcpRendezvousOptions& options);

/// As `wait_for`, and returns also when this worker is asked to stop.
void wait_or_stop(const TcpRendezvousOptions& options, std::vector<pollfd> waits, double seconds);
bool asked_to_stop(const TcpRendezvousOptions& options);

/// Throws Error for a text that is too long to gather.
void check_text(int rank, const std::string& text);

}  // namespace lockstep::net
