#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::data {

struct ProcessResult {
  int exit_code = 0;  ///< 128 + the signal's number when a signal ended it
  std::string output;
  std::string errors;
};

/// Runs a program found on the PATH, without a shell, and collects what it prints. Nothing when
/// there is no such program. Throws BadInput when it is not done in time; it is ended then.
std::optional<ProcessResult> run_program(const std::vector<std::string>& command,
                                         std::chrono::seconds limit);

}  // namespace lockstep::data
