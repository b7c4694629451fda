#pragma once

#include <poll.h>

#include <memory>
#include <vector>

#include "transport/tcp/tcp_rendezvous.h"

namespace lockstep::transport {

// The ends of a rendezvous over tcp: rank 0's, the others', and that of a world of one.
std::unique_ptr<Rendezvous> host_meeting(const Meeting& meeting);
std::unique_ptr<Rendezvous> join_meeting(const Meeting& meeting);
std::unique_ptr<Rendezvous> meet_alone();

/// As `wait_for`, and returns also when this worker is asked to stop.
void wait_or_stop(const Meeting& meeting, std::vector<pollfd> waits, double seconds);
bool asked_to_stop(const Meeting& meeting);

/// As the error its kind stands for.
[[noreturn]] void raise(const Failure& failure);

uint32_t milliseconds(double seconds);
void check_text(int rank, const std::string& text);

}  // namespace lockstep::transport
