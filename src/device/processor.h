#pragma once

#include <string>

namespace lockstep {

/// The name of this machine's processor, such as "AMD EPYC", or "unknown".
std::string processor_name();

}  // namespace lockstep
