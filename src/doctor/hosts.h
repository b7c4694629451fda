#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "doctor/finding.h"

namespace lockstep::doctor {

/// Another host, as `lockstep run --hosts` would use it.
struct HostFacts {
  std::string name;
  uint16_t port = 0;                 ///< of its ssh server
  std::string address;               ///< "10.0.0.7"; "" if the name has none
  std::string address_failure;       ///< why not, or ""
  std::optional<double> round_trip;  ///< seconds; nothing if no answer came
  std::optional<double> start;       ///< seconds until a worker had been started there and ended
  std::string failure;               ///< why none could be started, or ""
  std::string cure;                  ///< and what to do
};

/// Where ssh connects to.
struct SshTarget {
  std::string host;
  uint16_t port = 22;
};

/// What `ssh -G HOST` says in lines such as "hostname 10.0.0.7" and "port 2222"; `usual` where it
/// says nothing.
SshTarget target_in(const std::string& answer, SshTarget usual);

std::vector<Finding> judge(const HostFacts& facts);

}  // namespace lockstep::doctor
