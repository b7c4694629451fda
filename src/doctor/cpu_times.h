#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace lockstep::doctor {

/// Processor time since the machine started, in clock ticks, summed over all processors.
struct CpuTimes {
  int64_t all = 0;
  int64_t stolen = 0;  ///< used by other virtual machines while this one wanted to run
};

/// From /proc/stat.
CpuTimes cpu_times(const std::filesystem::path& root);

/// The part of the time between two moments that was stolen; nothing if too little passed to tell.
std::optional<double> stolen_share(const CpuTimes& before, const CpuTimes& after);

}  // namespace lockstep::doctor
