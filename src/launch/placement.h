#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/job.h"

namespace lockstep::launch {

/// Which workers of a job this host starts. The flags have the meaning of torchrun's.
struct PlacementFlags {
  std::optional<int> asked_workers;  ///< on every node
  std::optional<int> asked_nodes;
  std::optional<int> asked_node_rank;  ///< needed for several nodes
  std::string master;   ///< HOST or HOST:PORT of the node with rank 0; needed for several nodes
  std::string devices;  ///< which devices of this node its workers take; see device/visible.h

  int workers() const { return asked_workers.value_or(1); }
  int nodes() const { return asked_nodes.value_or(1); }
  int node_rank() const { return asked_node_rank.value_or(0); }
};

/// Throws BadInput for invalid numbers, and if a flag that several nodes need is missing.
void check(const PlacementFlags& flags);

/// Throws BadInput if the flags contradict the launcher that started this process.
void check_against(const PlacementFlags& flags, const Job& launched);

/// The jobs of the workers to start on this host, in order of rank. A single node chooses a free
/// port and a random key; several nodes need --master, and the same LOCKSTEP_JOB_KEY in the
/// environment. Throws BadInput.
std::vector<Job> jobs_here(const PlacementFlags& flags);

/// LOCKSTEP_JOB_KEY, or a random one.
std::string key_of_job();

/// HOST, HOST:PORT or [IPV6]:PORT of --master.
struct MasterAddress {
  std::string host;
  uint16_t port;
};
/// Throws BadInput. Without a port it is kUsualPort.
MasterAddress parse_master(const std::string& text);

/// Environment variables from which `job_from_environment` reads the job: torchrun's, and the key.
std::vector<std::pair<std::string, std::string>> environment_of(const Job& job, int local_world);

}  // namespace lockstep::launch
