#pragma once

#include <string>

#include "elastic/member.h"

namespace lockstep::elastic {

/// Sends `control` to the coordinator of a job; returns its answer, such as the list of workers.
/// Throws BadInput if the coordinator refuses, Timeout, PeerLost.
std::string control(const MemberOptions& job, const Control& control);

}  // namespace lockstep::elastic
