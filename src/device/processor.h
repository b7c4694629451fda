#pragma once

#include <string>

namespace lockstep {

/// What this machine's processor calls itself: "AMD EPYC". "unknown" where it does not say.
std::string processor_name();

}  // namespace lockstep
