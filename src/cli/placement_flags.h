#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "launch/placement.h"
#include "launch/workers.h"

namespace lockstep::cli {

/// -n/--workers, --nnodes, --node-rank and --master.
void add_placement_flags(CLI::App& app, launch::PlacementFlags& flags);

/// Returns in the process that starts workers, and in each worker.
struct StartedPlaced {
  std::optional<launch::Job> worker;  ///< in a worker, which ends by launch::end_worker
  int exit_code = 0;                  ///< here: of the worker that failed first, told on stderr
};

/// Forks every worker of this host. With prefixes for all lines but rank 0's or for all.
StartedPlaced start_placed(const launch::PlacementFlags& flags, launch::Prefixed prefixed);

}  // namespace lockstep::cli
