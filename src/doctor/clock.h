#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/finding.h"

namespace lockstep::doctor {

struct ClockFacts {
  int64_t resolution_ns = 0;   ///< of the monotonic clock
  std::string source;          ///< "tsc", "hpet", ...
  bool synchronised = false;   ///< the system clock, by NTP or the like
  bool several_hosts = false;  ///< --hosts were given, or a launcher started this process
};

std::vector<Finding> judge(const ClockFacts& facts);

}  // namespace lockstep::doctor
