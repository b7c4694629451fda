#pragma once

#include <string>
#include <vector>

#include "net/socket.h"

namespace lockstep::doctor {

struct Resolved {
  std::vector<net::Address> addresses;
  std::string failure;  ///< why there are none, or ""
};

/// As net::resolve, which a name service that does not answer may keep waiting for long.
Resolved resolve_within(double seconds, const std::string& host, uint16_t port);

}  // namespace lockstep::doctor
