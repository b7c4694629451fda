#pragma once

#include <string>
#include <vector>

#include "run/outcome.h"

namespace lockstep::cli {

enum class ResultFormat { text, json };

/// Prints the result of a run that has ended or stopped, and how to resume it.
void show_result(const run::Outcome& outcome, ResultFormat format,
                 const std::vector<std::string>& plugins);

}  // namespace lockstep::cli
