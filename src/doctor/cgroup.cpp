// Words: a `hierarchy` is a mounted tree of groups, one for each controller in version 1, one for
// all in version 2. A limit of a group holds for the groups inside it, so that all groups from this
// process's one up to the tree's root are read. A container may see only the part of a tree that
// begins at its own group: the mount's root.
#include "doctor/cgroup.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "doctor/sources.h"

namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;

// Version 1 writes "no limit" as a number of about this size.
constexpr int64_t kNoMemoryLimit = int64_t{1} << 60;

struct Hierarchy {
  int version = 0;
  std::string controllers;  // ",cpu,cpuacct,"; of version 2 empty
  fs::path mount;
  fs::path mount_root;
};

// A line of mountinfo: 32 31 0:29 ROOT MOUNT OPTIONS... - TYPE SOURCE SUPEROPTIONS
std::vector<Hierarchy> hierarchies(const fs::path& root) {
  std::vector<Hierarchy> found;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - cgroup");
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash));
    std::istringstream after(line.substr(dash + 3));
    std::string id, parent, device, mount_root, mount, type, source, options;
    before >> id >> parent >> device >> mount_root >> mount;
    after >> type >> source >> options;
    found.push_back({.version = type == "cgroup2" ? 2 : 1,
                     .controllers = type == "cgroup2" ? "" : "," + options + ",",
                     .mount = mount,
                     .mount_root = mount_root});
  }
  return found;
}

// This process's group in a hierarchy. A line of /proc/self/cgroup: 4:cpu,cpuacct:/path, or
// 0::/path in version 2.
fs::path group_in(const fs::path& root, const Hierarchy& hierarchy, std::string_view controller) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_it = hierarchy.version == 2
                           ? names == ",,"
                           : names.find(fmt::format(",{},", controller)) != std::string::npos;
    if (is_it) return line.substr(second + 1);
  }
  return "/";
}

// The folders of the process's group and of those that contain it, innermost first.
std::vector<fs::path> groups_of(const fs::path& root, std::string_view controller, int version) {
  std::vector<fs::path> folders;
  for (const Hierarchy& hierarchy : hierarchies(root)) {
    if (hierarchy.version != version) continue;
    if (version == 1 &&
        hierarchy.controllers.find(fmt::format(",{},", controller)) == std::string::npos)
      continue;
    fs::path inside =
        group_in(root, hierarchy, controller).lexically_relative(hierarchy.mount_root);
    if (inside.empty() || *inside.begin() == "..") inside = ".";
    for (; inside != "." && !inside.empty(); inside = inside.parent_path())
      folders.push_back(hierarchy.mount / inside);
    folders.push_back(hierarchy.mount);
  }
  return folders;
}

std::optional<int64_t> number_in(const fs::path& file) {
  const std::optional<std::string> line = first_line(file);
  if (!line) return std::nullopt;
  std::istringstream text(*line);
  int64_t value = 0;
  return text >> value ? std::optional(value) : std::nullopt;
}

void limit_cores(CgroupLimits& limits, const fs::path& file, int64_t quota, int64_t period) {
  if (quota <= 0 || period <= 0) return;
  const double cores = static_cast<double>(quota) / static_cast<double>(period);
  if (limits.cores && *limits.cores <= cores) return;
  limits.cores = cores;
  limits.cores_file = file.string();
}

void limit_memory(CgroupLimits& limits, const fs::path& root, const fs::path& file,
                  const fs::path& used) {
  const std::optional<int64_t> bytes = number_in(below(root, file));
  if (!bytes || *bytes >= kNoMemoryLimit || (limits.memory && *limits.memory <= *bytes)) return;
  limits.memory = bytes;
  limits.memory_file = file.string();
  limits.memory_used = number_in(below(root, used)).value_or(0);
}

}  // namespace

CgroupLimits read_cgroup(const fs::path& root) {
  CgroupLimits limits;
  for (const fs::path& group : groups_of(root, "cpu", 1))
    limit_cores(limits, group / "cpu.cfs_quota_us",
                number_in(below(root, group / "cpu.cfs_quota_us")).value_or(-1),
                number_in(below(root, group / "cpu.cfs_period_us")).value_or(0));
  for (const fs::path& group : groups_of(root, "memory", 1))
    limit_memory(limits, root, group / "memory.limit_in_bytes", group / "memory.usage_in_bytes");
  for (const fs::path& group : groups_of(root, "", 2)) {
    std::istringstream text(first_line(below(root, group / "cpu.max")).value_or(""));
    int64_t quota = 0, period = 0;
    if (text >> quota >> period) limit_cores(limits, group / "cpu.max", quota, period);
    limit_memory(limits, root, group / "memory.max", group / "memory.current");
  }
  return limits;
}

}  // namespace lockstep::doctor
