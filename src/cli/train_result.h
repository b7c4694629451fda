#pragma once

#include <string>
#include <vector>

#include "run/outcome.h"

namespace lockstep::cli {

enum class ResultFormat { text, json };

/// Shows what a run that has ended or stopped came to, and how to go on.
void show_result(const run::Outcome& outcome, ResultFormat format,
                 const std::vector<std::string>& plugins);

}  // namespace lockstep::cli
