#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::data {

struct ProcessResult {
  int exit_code = 0;  ///< 128 + the signal's number if a signal ended it
  std::string output;
  std::string errors;
};

/// Runs a program found on the PATH, without a shell, and returns its output; nothing if there is
/// no such program. Kills it and throws BadInput if it exceeds `limit`.
std::optional<ProcessResult> run_program(const std::vector<std::string>& command,
                                         std::chrono::seconds limit);

}  // namespace lockstep::data
