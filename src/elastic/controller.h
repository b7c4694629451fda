#pragma once

#include <string>

#include "elastic/member.h"

namespace lockstep::elastic {

/// Asks the coordinator of a job who its workers are, after telling it what is in `control`. Throws
/// BadInput where that cannot be, Timeout, PeerLost.
std::string control(const MemberOptions& job, const Control& control);

}  // namespace lockstep::elastic
