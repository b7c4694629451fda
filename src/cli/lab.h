#pragma once

#include <memory>

#include "cli/command.h"

namespace lockstep::cli {

std::unique_ptr<Command> add_lab_dp_vs_ddp(CLI::App& parent);

}  // namespace lockstep::cli
