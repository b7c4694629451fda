#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launch/job.h"

namespace lockstep::launch {

/// Which workers of a job this host starts. The flags mean what torchrun's mean.
struct PlacementFlags {
  int workers = 1;  ///< on every node
  int nodes = 1;
  int node_rank = 0;
  std::string master;  ///< HOST or HOST:PORT of the node with rank 0; needed for several nodes
};

/// The jobs of the workers to start here, in order of rank. One node makes up a port and a key of
/// its own; several need --master, and LOCKSTEP_JOB_KEY in the environment, the same on all. Throws
/// BadInput.
std::vector<Job> jobs_here(const PlacementFlags& flags);

/// What `job_from_environment` finds the job in again: torchrun's variables and the key.
std::vector<std::pair<std::string, std::string>> environment_of(const Job& job, int local_world);

}  // namespace lockstep::launch
