#include "doctor/cpu_times.h"

#include <fstream>
#include <string>

namespace lockstep::doctor {

CpuTimes cpu_times(const std::filesystem::path& root) {
  constexpr int kStolen = 7;  // after user, nice, system, idle, iowait, irq and softirq
  constexpr int kKinds = 8;
  std::ifstream file(root / "proc/stat");
  std::string cpu;
  file >> cpu;
  CpuTimes times;
  int64_t ticks = 0;
  for (int kind = 0; kind < kKinds && file >> ticks; ++kind) {
    times.all += ticks;
    if (kind == kStolen) times.stolen = ticks;
  }
  return times;
}

std::optional<double> stolen_share(const CpuTimes& before, const CpuTimes& after) {
  constexpr int64_t kFewest = 20;
  const int64_t all = after.all - before.all;
  if (all < kFewest) return std::nullopt;
  return static_cast<double>(after.stolen - before.stolen) / static_cast<double>(all);
}

}  // namespace lockstep::doctor
