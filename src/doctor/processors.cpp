#include "doctor/processors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwloc.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "base/host.h"
#include "base/processor.h"
#include "base/units.h"
#include "device/processor.h"
#include "doctor/area.h"

namespace lockstep::doctor {
namespace {

// Below this, other virtual machines cost less than measurements vary.
constexpr double kMuchStolen = 0.05;

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

// Also of processors that this process may not use.
Topology load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return {nullptr, hwloc_topology_destroy};
  Topology topology(raw, hwloc_topology_destroy);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(raw) != 0) topology.reset();
  return topology;
}

std::vector<int64_t> cache_sizes(hwloc_topology_t topology) {
  constexpr std::array kLevels = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE};
  std::vector<int64_t> sizes;
  for (const hwloc_obj_type_t level : kLevels)
    if (hwloc_obj_t cache = hwloc_get_obj_by_type(topology, level, 0))
      sizes.push_back(static_cast<int64_t>(cache->attr->cache.size));
  return sizes;
}

int cores_with_any_of(hwloc_topology_t topology, const std::vector<int>& processors) {
  hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
  for (const int processor : processors)
    hwloc_bitmap_set(allowed, static_cast<unsigned>(processor));
  int cores = 0;
  for (hwloc_obj_t core = hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, 0); core != nullptr;
       core = core->next_cousin)
    cores += hwloc_bitmap_intersects(core->cpuset, allowed) != 0 ? 1 : 0;
  hwloc_bitmap_free(allowed);
  return cores;
}

// Those of all that /proc/cpuinfo lists that kernels of ours, LibTorch's or oneDNN's ask for.
std::vector<std::string> instruction_sets(const std::filesystem::path& root) {
  const std::set<std::string> interesting = {
      "sse4_2",   "avx",      "avx2",     "fma",         "f16c",        "avx512f",  "avx512vl",
      "avx512bw", "avx512dq", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16",
      "amx_int8", "asimd",    "sve",      "sve2",        "bf16"};
  std::ifstream file(root / "proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::vector<std::string> found;
    for (std::string word; words >> word;)
      if (interesting.contains(word)) found.push_back(word);
    return found;
  }
  return {};
}

std::string describe_counts(const ProcessorFacts& facts) {
  return fmt::format("{}, {}, {}, {}", plural(facts.cores, "core"),
                     plural(facts.threads, "hardware thread"), plural(facts.sockets, "socket"),
                     plural(facts.numa_nodes, "NUMA node"));
}

std::string describe_caches(const ProcessorFacts& facts) {
  std::vector<std::string> caches;
  for (size_t i = 0; i < facts.caches.size(); ++i)
    caches.push_back(fmt::format("L{} {}", i + 1, format_bytes(facts.caches[i])));
  return caches.empty() ? "unknown" : fmt::format("{}", fmt::join(caches, ", "));
}

std::string describe_usable(const ProcessorFacts& facts) {
  std::string text =
      fmt::format("{} of {}", facts.allowed_threads, plural(facts.threads, "hardware thread"));
  if (facts.cgroup.cores)
    text += fmt::format("; the time of {:.3g} by cgroup", *facts.cgroup.cores);
  return text;
}

std::string describe_kernels(const ProcessorFacts& facts) {
  const char* const additions = has_wide_registers() ? "AVX2" : "any processor";
  if (facts.kernels.empty()) return fmt::format("additions for {}", additions);
  return fmt::format("layers for {}, additions for {}",
                     facts.kernels == "none" ? "any processor, by LibTorch" : facts.kernels,
                     additions);
}

std::vector<Fact> facts_of(const ProcessorFacts& facts) {
  return {{"model", facts.model},
          {"cores",
           {{"cores", facts.cores},
            {"threads", facts.threads},
            {"sockets", facts.sockets},
            {"numa_nodes", facts.numa_nodes}},
           describe_counts(facts)},
          {"caches", facts.caches, describe_caches(facts)},
          {"usable",
           {{"threads", facts.allowed_threads},
            {"cores", facts.allowed_cores},
            {"cgroup_cores", facts.cgroup.cores ? Json(*facts.cgroup.cores) : Json()},
            {"workers", usable_cores(facts)}},
           describe_usable(facts)},
          {"instruction sets", facts.instruction_sets,
           fmt::format("{}", fmt::join(facts.instruction_sets, " "))},
          {"our kernels",
           {{"layers", facts.kernels.empty() ? Json() : Json(facts.kernels)},
            {"additions", has_wide_registers() ? "AVX2" : "any"}},
           describe_kernels(facts)},
          {"stolen time", facts.stolen ? Json(*facts.stolen) : Json(),
           facts.stolen ? fmt::format("{:.1f} % during this call", 100 * *facts.stolen)
                        : "too short a time to tell"}};
}

Section examine_processors(const Visit& visit) {
  ProcessorFacts facts = gather_processors(visit.root);
  if (visit.library.facts) facts.kernels = visit.library.facts->kernels;
  facts.stolen = stolen_share(visit.before, cpu_times(visit.root));
  return {facts_of(facts), judge(facts)};
}

const bool processors_added =
    areas().add({"processors", "cores, caches and what limits this process's use of them", 10,
                 examine_processors});

}  // namespace

ProcessorFacts gather_processors(const std::filesystem::path& root) {
  const std::vector<int> allowed = allowed_processors();
  ProcessorFacts facts{.model = processor_name(),
                       .instruction_sets = instruction_sets(root),
                       .allowed_threads = static_cast<int>(allowed.size()),
                       .cgroup = read_cgroup(root)};
  const Topology topology = load_topology();
  if (!topology) {
    facts.cores = facts.threads = facts.allowed_cores = facts.allowed_threads;
    return facts;
  }
  const auto count = [&](hwloc_obj_type_t type) {
    return hwloc_get_nbobjs_by_type(topology.get(), type);
  };
  facts.sockets = count(HWLOC_OBJ_PACKAGE);
  facts.cores = count(HWLOC_OBJ_CORE);
  facts.threads = count(HWLOC_OBJ_PU);
  facts.numa_nodes = count(HWLOC_OBJ_NUMANODE);
  facts.caches = cache_sizes(topology.get());
  facts.allowed_cores = cores_with_any_of(topology.get(), allowed);
  return facts;
}

int usable_cores(const ProcessorFacts& facts) {
  const double quota = facts.cgroup.cores.value_or(facts.allowed_cores);
  return std::max(1, std::min(facts.allowed_cores, static_cast<int>(std::floor(quota + 0.01))));
}

std::vector<Finding> judge(const ProcessorFacts& facts) {
  std::vector<Finding> findings;
  const std::string workers = plural(usable_cores(facts), "worker");
  if (facts.cgroup.cores && *facts.cgroup.cores < facts.allowed_threads - 0.01)
    findings.push_back(
        {.id = "processors.quota",
         .what = fmt::format("the control group gives this process the time of {:.3g} of {} "
                             "({})",
                             *facts.cgroup.cores, plural(facts.threads, "hardware thread"),
                             facts.cgroup.cores_file),
         .why = "more threads than that are stopped for a part of each period",
         .cure = fmt::format("use at most {} (--workers {}), or raise the limit: docker run --cpus "
                             "N, srun --cpus-per-task N",
                             workers, usable_cores(facts))});
  if (facts.allowed_threads < facts.threads)
    findings.push_back(
        {.id = "processors.affinity",
         .what = fmt::format("this process may run on {} of {} (its affinity mask)",
                             facts.allowed_threads, plural(facts.threads, "hardware thread")),
         .why = "workers that it starts share these",
         .cure = fmt::format("use at most {} (--workers {}), or start it without taskset; srun "
                             "--cpus-per-task N, mpirun --bind-to none",
                             workers, usable_cores(facts))});
  if (facts.stolen && *facts.stolen > kMuchStolen)
    findings.push_back({.id = "processors.stolen",
                        .what = fmt::format("other virtual machines took {:.0f} % of the processor "
                                            "time during this call",
                                            100 * *facts.stolen),
                        .why = "all workers wait for the slowest one in each step",
                        .cure = "measure again later (lockstep doctor), or use a machine with "
                                "processors of its own"});
  if (facts.kernels == "none")
    findings.push_back({.id = "processors.kernels",
                        .what = fmt::format("{} has no AVX2 and FMA", facts.model),
                        .why = "layers are computed by LibTorch, not by our own kernels",
                        .cure = "nothing, if LibTorch is fast enough here; in a virtual machine, "
                                "pass the host's processor on (qemu -cpu host)"});
  return findings;
}

}  // namespace lockstep::doctor
