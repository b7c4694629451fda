#pragma once

#include <string>

#include "run/outcome.h"

namespace lockstep::cli {

enum class ResultFormat { text, json };

/// Prints the result of a run that has ended or stopped, and how to resume it; see
/// job::flags_to_repeat.
void show_result(const run::Outcome& outcome, ResultFormat format,
                 const std::string& repeated_flags);

}  // namespace lockstep::cli
