#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace lockstep::doctor {

/// A variable of the environment; nothing if it is not set.
inline std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

/// The first line of a small file, such as those below /proc and /sys; nothing if it cannot be
/// read.
inline std::optional<std::string> first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? std::optional(line) : std::nullopt;
}

/// Where an absolute path is below another root.
inline std::filesystem::path below(const std::filesystem::path& root,
                                   const std::filesystem::path& path) {
  return root / path.relative_path();
}

}  // namespace lockstep::doctor
