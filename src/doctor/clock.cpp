#include "doctor/clock.h"

#include <fmt/format.h>
#include <sys/timex.h>

#include <ctime>

#include "doctor/area.h"
#include "doctor/sources.h"

namespace lockstep::doctor {
namespace {

constexpr int64_t kCoarseNs = 1000;

ClockFacts gather_clock(const std::filesystem::path& root) {
  timespec resolution = {};
  clock_getres(CLOCK_MONOTONIC, &resolution);
  timex state = {};
  const int status = adjtimex(&state);
  return {
      .resolution_ns = resolution.tv_sec * 1'000'000'000 + resolution.tv_nsec,
      .source = first_line(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
                    .value_or("unknown"),
      .synchronised = status >= 0 && status != TIME_ERROR && (state.status & STA_UNSYNC) == 0};
}

Section examine_clock(const Visit& visit) {
  ClockFacts facts = gather_clock(visit.root);
  facts.several_hosts = !visit.request.hosts.empty() || variable("WORLD_SIZE") ||
                        variable("SLURM_JOB_ID") || variable("OMPI_COMM_WORLD_SIZE");
  return {{{"monotonic clock",
            {{"resolution_ns", facts.resolution_ns}, {"source", facts.source}},
            fmt::format("{} ns, from {}", facts.resolution_ns, facts.source)},
           {"system clock",
            {{"synchronised", facts.synchronised}},
            facts.synchronised ? "synchronised" : "not synchronised"}},
          judge(facts)};
}

const bool clock_added = areas().add({"clock", "the clocks of this machine", 80, examine_clock});

}  // namespace

std::vector<Finding> judge(const ClockFacts& facts) {
  std::vector<Finding> findings;
  if (facts.resolution_ns > kCoarseNs)
    findings.push_back(
        {.id = "clock.resolution",
         .what = fmt::format("the monotonic clock has a resolution of {} ns (from {})",
                             facts.resolution_ns, facts.source),
         .why = "--algorithm auto measures all-reduces of some microseconds",
         .cure = "boot with high-resolution timers (highres=on)"});
  if (!facts.synchronised && facts.several_hosts)
    findings.push_back({.id = "clock.synchronised",
                        .what = "the system clock is not synchronised",
                        .why = "times in the logs of several hosts cannot be compared; Lockstep "
                               "itself does not need it",
                        .cure = "apt-get install chrony; in a container or virtual machine: see to "
                                "its host's clock"});
  return findings;
}

}  // namespace lockstep::doctor
