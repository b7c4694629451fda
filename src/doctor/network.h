#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/finding.h"

namespace lockstep::doctor {

/// What failed, or "" if it works.
struct NetworkFacts {
  std::string ipv4;           ///< to bind and to connect on 127.0.0.1
  std::string ipv6;           ///< on ::1
  std::string shared_memory;  ///< to share memory between two workers
  /// To bind the port of rank 0; nothing if this process is not rank 0.
  std::optional<std::string> master_port;
};

std::vector<Finding> judge(const NetworkFacts& facts);

}  // namespace lockstep::doctor
