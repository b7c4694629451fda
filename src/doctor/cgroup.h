#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::doctor {

/// Limits of this process's control group, of version 1 or 2, and of the groups that contain it:
/// the smallest of each, and the file that sets it.
struct CgroupLimits {
  std::optional<double> cores = {};  ///< processor time per time
  std::string cores_file = {};
  std::optional<int64_t> memory = {};  ///< bytes
  std::string memory_file = {};
  int64_t memory_used = 0;  ///< of that limit
};

/// Reads /proc/self/cgroup, /proc/self/mountinfo and the groups' files, all below `root`.
CgroupLimits read_cgroup(const std::filesystem::path& root);

}  // namespace lockstep::doctor
