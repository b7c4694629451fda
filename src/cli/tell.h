#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::cli {

/// Prints a line for the user on stderr.
inline void tell(const std::string& message) {
  std::fputs(fmt::format("lockstep: {}\n", message).c_str(), stderr);
}

/// Prints names and values on stdout, one pair per line, with values below each other.
inline void print_lines(const std::vector<std::pair<std::string, std::string>>& lines) {
  size_t width = 0;
  for (const auto& [name, value] : lines) width = std::max(width, name.size());
  for (const auto& [name, value] : lines) fmt::print("{:<{}}  {}\n", name, width, value);
}

}  // namespace lockstep::cli
