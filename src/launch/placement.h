#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/job.h"

namespace lockstep::launch {

/// Which workers of a job this host starts. The flags mean what torchrun's mean.
struct PlacementFlags {
  std::optional<int> asked_workers;  ///< on every node
  std::optional<int> asked_nodes;
  std::optional<int> asked_node_rank;  ///< needed for several nodes
  std::string master;  ///< HOST or HOST:PORT of the node with rank 0; needed for several nodes

  int workers() const { return asked_workers.value_or(1); }
  int nodes() const { return asked_nodes.value_or(1); }
  int node_rank() const { return asked_node_rank.value_or(0); }
};

/// Throws BadInput for numbers that cannot be, and where several nodes are not all said.
void check(const PlacementFlags& flags);

/// Throws BadInput where the flags say something else than the launcher that started this process.
void check_against(const PlacementFlags& flags, const Job& launched);

/// The jobs of the workers to start here, in order of rank. One node makes up a port and a key of
/// its own; several need --master, and LOCKSTEP_JOB_KEY in the environment, the same on all. Throws
/// BadInput.
std::vector<Job> jobs_here(const PlacementFlags& flags);

/// What `job_from_environment` finds the job in again: torchrun's variables and the key.
std::vector<std::pair<std::string, std::string>> environment_of(const Job& job, int local_world);

}  // namespace lockstep::launch
