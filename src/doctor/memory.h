#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "doctor/cgroup.h"
#include "doctor/finding.h"

namespace lockstep::doctor {

/// All in bytes.
struct MemoryFacts {
  int64_t total = 0;
  int64_t available = 0;
  CgroupLimits cgroup;
  std::optional<int64_t> address_space;  ///< ulimit -v; nothing: unlimited
  std::optional<int64_t> locked;         ///< ulimit -l; nothing: unlimited
  bool has_infiniband = false;
  std::optional<int64_t> shm_size;  ///< of /dev/shm; nothing: there is none
  int64_t shm_free = 0;
  std::string huge_pages;  ///< transparent huge pages: "always", "madvise", "never"
};

MemoryFacts gather_memory(const std::filesystem::path& root);

std::vector<Finding> judge(const MemoryFacts& facts);

}  // namespace lockstep::doctor
