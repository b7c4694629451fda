#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "launch/placement.h"
#include "launch/ssh.h"
#include "launch/workers.h"

namespace lockstep::cli {

/// -n/--workers, --nnodes, --node-rank and --master.
void add_placement_flags(CLI::App& app, launch::PlacementFlags& flags);

/// --ssh and --remote-lockstep.
void add_ssh_flags(CLI::App& app, launch::SshOptions& options);

/// Result of start_placed, which returns in the process that starts workers and in each worker.
struct StartedPlaced {
  std::optional<launch::Job> worker;  ///< in a worker, which must end by launch::end_worker
  int exit_code = 0;                  ///< in the launcher: of the worker that failed first
};

/// Forks every worker of this host, and prints the first failure on stderr. `prefixed` says which
/// workers' output lines get the rank in front.
StartedPlaced start_placed(const launch::PlacementFlags& flags, launch::Prefixed prefixed);

}  // namespace lockstep::cli
