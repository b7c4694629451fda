#include "doctor/memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/units.h"
#include "doctor/area.h"
#include "doctor/sources.h"

namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMiB = int64_t{1} << 20;
// MPI's and NCCL's buffers for two workers of one host.
constexpr int64_t kShmForTwo = 16 * kMiB;
// And for eight. Containers have 64 MiB if nobody asks for more.
constexpr int64_t kShmForEight = 128 * kMiB;
// LibTorch, a small model and a data set of one worker.
constexpr int64_t kForOneWorker = 1024 * kMiB;
constexpr int64_t kLockedForInfiniband = 1024 * kMiB;

// A line of /proc/meminfo: "MemTotal:       24684112 kB".
int64_t meminfo(const fs::path& root, const std::string& name) {
  std::ifstream file(root / "proc/meminfo");
  for (std::string word; file >> word;) {
    int64_t kib = 0;
    if (word == name + ":" && file >> kib) return kib * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

std::optional<int64_t> limit_of(int resource) {
  rlimit limit = {};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY)
    return std::nullopt;
  return static_cast<int64_t>(limit.rlim_cur);
}

// "always [madvise] never" -> "madvise".
std::string chosen_in(const std::string& line) {
  const size_t begin = line.find('[');
  const size_t end = line.find(']');
  return begin == std::string::npos || end == std::string::npos
             ? "unknown"
             : line.substr(begin + 1, end - begin - 1);
}

// What is left below the smaller of the machine's and the control group's limit.
int64_t available_to(const MemoryFacts& facts) {
  if (!facts.cgroup.memory) return facts.available;
  return std::min(facts.available,
                  std::max<int64_t>(0, *facts.cgroup.memory - facts.cgroup.memory_used));
}

std::string or_unlimited(const std::optional<int64_t>& bytes) {
  return bytes ? format_bytes(*bytes) : "unlimited";
}

Json or_null(const std::optional<int64_t>& bytes) {
  return bytes ? Json(*bytes) : Json();
}

std::vector<Fact> facts_of(const MemoryFacts& facts) {
  return {{"total", facts.total, format_bytes(facts.total)},
          {"available", available_to(facts), format_bytes(available_to(facts))},
          {"cgroup limit", or_null(facts.cgroup.memory), or_unlimited(facts.cgroup.memory)},
          {"address space", or_null(facts.address_space),
           or_unlimited(facts.address_space) + " (ulimit -v)"},
          {"locked memory", or_null(facts.locked), or_unlimited(facts.locked) + " (ulimit -l)"},
          {"/dev/shm",
           {{"size", or_null(facts.shm_size)}, {"free", facts.shm_free}},
           facts.shm_size ? fmt::format("{} free of {}", format_bytes(facts.shm_free),
                                        format_bytes(*facts.shm_size))
                          : "none",
           "dev_shm"},
          {"huge pages", facts.huge_pages}};
}

Section examine_memory(const Visit& visit) {
  const MemoryFacts facts = gather_memory(visit.root);
  return {facts_of(facts), judge(facts)};
}

const bool memory_added =
    areas().add({"memory", "memory, its limits and shared memory", 20, examine_memory});

// Lockstep's own shared memory has no name, and so is not in /dev/shm.
std::optional<Finding> judge_shm(const MemoryFacts& facts) {
  const char* const cure =
      "remove what is left there (ls -l /dev/shm), or make it larger: mount -o remount,size=1G "
      "/dev/shm; docker run --shm-size 1g; --transport hybrid needs none of it";
  if (!facts.shm_size)
    return Finding{.id = "memory.shm",
                   .what = "there is no /dev/shm",
                   .why = "MPI and NCCL put the buffers of an all-reduce there",
                   .cure = "mount -t tmpfs tmpfs /dev/shm; --transport hybrid needs none of it"};
  if (facts.shm_free >= kShmForEight) return std::nullopt;
  const bool is_full = facts.shm_free < kShmForTwo;
  return Finding{
      .id = "memory.shm",
      .severity = is_full ? Severity::problem : Severity::advice,
      .what = fmt::format("/dev/shm has {} free of {}", format_bytes(facts.shm_free),
                          format_bytes(*facts.shm_size)),
      .why = is_full ? "too little for an all-reduce: NCCL fails without it, MPI takes slower ways"
                     : "MPI and NCCL put the buffers of an all-reduce there, more for more workers",
      .cure = cure};
}

}  // namespace

MemoryFacts gather_memory(const fs::path& root) {
  MemoryFacts facts{.total = meminfo(root, "MemTotal"),
                    .available = meminfo(root, "MemAvailable"),
                    .cgroup = read_cgroup(root),
                    .address_space = limit_of(RLIMIT_AS),
                    .locked = limit_of(RLIMIT_MEMLOCK)};
  std::error_code ignored;
  facts.has_infiniband =
      fs::directory_iterator(root / "sys/class/infiniband", ignored) != fs::directory_iterator();
  struct statvfs shm = {};
  if (statvfs((root / "dev/shm").c_str(), &shm) == 0) {
    facts.shm_size = static_cast<int64_t>(shm.f_blocks * shm.f_frsize);
    facts.shm_free = static_cast<int64_t>(shm.f_bavail * shm.f_frsize);
  }
  facts.huge_pages =
      chosen_in(first_line(root / "sys/kernel/mm/transparent_hugepage/enabled").value_or(""));
  return facts;
}

std::vector<Finding> judge(const MemoryFacts& facts) {
  std::vector<Finding> findings;
  if (facts.address_space && *facts.address_space < 2 * facts.total)
    findings.push_back(
        {.id = "memory.address_space",
         .severity = Severity::problem,
         .what = fmt::format("ulimit -v is {}, this machine has {}",
                             format_bytes(*facts.address_space), format_bytes(facts.total)),
         .why = "workers of one host reserve addresses for all of its memory, each, and fail",
         .cure = "ulimit -v unlimited, or --transport tcp"});
  if (facts.cgroup.memory && *facts.cgroup.memory < facts.total)
    findings.push_back(
        {.id = "memory.cgroup",
         .what = fmt::format("the control group limits memory to {} of {}, of which {} is in use "
                             "({})",
                             format_bytes(*facts.cgroup.memory), format_bytes(facts.total),
                             format_bytes(facts.cgroup.memory_used), facts.cgroup.memory_file),
         .why = "a worker that needs more is killed (signal 9)",
         .cure = "ask for more: docker run --memory N, srun --mem N"});
  if (available_to(facts) < kForOneWorker)
    findings.push_back(
        {.id = "memory.available",
         .what = fmt::format("{} of memory is available", format_bytes(available_to(facts))),
         .why = "LibTorch alone takes some hundred MiB in each worker",
         .cure = "end what else runs here: ps aux --sort=-rss | head"});
  if (facts.has_infiniband && facts.locked && *facts.locked < kLockedForInfiniband)
    findings.push_back({.id = "memory.locked",
                        .what = fmt::format("ulimit -l is {}, and there is an InfiniBand adapter",
                                            format_bytes(*facts.locked)),
                        .why = "it can send only from locked memory",
                        .cure = "ulimit -l unlimited; for all users in /etc/security/limits.conf; "
                                "srun --propagate=MEMLOCK"});
  if (auto shm = judge_shm(facts)) findings.push_back(*shm);
  return findings;
}

}  // namespace lockstep::doctor
