#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace lockstep::cli {

/// Prints a line for the user on stderr.
inline void tell(const std::string& message) {
  std::fputs(fmt::format("lockstep: {}\n", message).c_str(), stderr);
}

}  // namespace lockstep::cli
