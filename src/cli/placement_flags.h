#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "launch/placement.h"
#include "launch/workers.h"

namespace lockstep::cli {

/// -n/--workers, --nnodes, --node-rank and --master.
void add_placement_flags(CLI::App& app, launch::PlacementFlags& flags);

/// Runs `worker(job)` for every worker of this host and returns the exit code: of the worker that
/// failed first, whom it names on stderr before it calls `on_failure`. With prefixes for all lines
/// but rank 0's or for all.
int run_placed(const launch::PlacementFlags& flags, launch::Prefixed prefixed,
               const std::function<int(const launch::Job&)>& worker,
               const std::function<void(const launch::Ending&)>& on_failure = {});

}  // namespace lockstep::cli
