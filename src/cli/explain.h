#pragma once

#include <memory>

#include "cli/command.h"

namespace lockstep::cli {

std::unique_ptr<Command> add_explain_all_reduce(CLI::App& parent);
std::unique_ptr<Command> add_explain_pipeline(CLI::App& parent);

}  // namespace lockstep::cli
