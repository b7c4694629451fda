#pragma once

#include "elastic/member.h"
#include "net/socket.h"

namespace lockstep::elastic {

/// A connection to a job's coordinator that has passed its handshake. Throws BadInput (no such
/// host, another key), Timeout, and Interrupted when asked to stop.
net::Descriptor dial_coordinator(const MemberOptions& options);

}  // namespace lockstep::elastic
