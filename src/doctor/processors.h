#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "doctor/cgroup.h"
#include "doctor/cpu_times.h"
#include "doctor/finding.h"

namespace lockstep::doctor {

/// Words: a core has one or more hardware threads, which the system calls processors.
struct ProcessorFacts {
  std::string model;
  std::vector<std::string> instruction_sets;
  std::string kernels;  ///< as train::LibTorchFacts; empty: not known
  int sockets = 0;
  int cores = 0;
  int threads = 0;  ///< hardware threads
  int numa_nodes = 0;
  std::vector<int64_t> caches;  ///< bytes of a cache of level 1, 2, ...
  int allowed_cores = 0;        ///< with a hardware thread in this process's affinity mask
  int allowed_threads = 0;
  CgroupLimits cgroup;
  std::optional<double> stolen;  ///< share of processor time
};

ProcessorFacts gather_processors(const std::filesystem::path& root);

/// How many workers of one thread each can compute at a time here, at least 1.
int usable_cores(const ProcessorFacts& facts);

std::vector<Finding> judge(const ProcessorFacts& facts);

}  // namespace lockstep::doctor
