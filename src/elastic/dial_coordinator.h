#pragma once

#include "elastic/member.h"
#include "net/socket.h"

namespace lockstep::elastic {

/// Connects to a job's coordinator; the connection has passed its handshake. Throws BadInput
/// (unknown host, wrong key), Timeout, and Interrupted when asked to stop.
net::Descriptor dial_coordinator(const MemberOptions& options);

}  // namespace lockstep::elastic
