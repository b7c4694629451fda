#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "run/events.h"

namespace lockstep::lab {

/// How a batch is computed: on one device; on several of one worker (DataParallel); or on several,
/// each with a worker of its own (DistributedDataParallel).
enum class DataWay { one_device, dp, ddp };

/// What `lockstep lab dp-vs-ddp` compares.
struct DpVsDdpOptions {
  Recipe recipe;  ///< trained in all ways; its device.kind is virtual or cuda
  std::vector<std::string> plugins = {};
  std::vector<int> devices = {1, 2, 4};
  int rounds = 2;  ///< in each of which every way runs once
  double deadline_seconds = 600;
  std::filesystem::path out;  ///< a folder for the runs
  /// Called with what is being done.
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

/// One way, measured. Bytes are those between devices, per step.
struct DpVsDdpRow {
  DataWay way = DataWay::one_device;
  int devices = 1;
  double seconds_per_step = 0;  ///< the median of the fastest round
  double speedup = 1;           ///< over one device
  double efficiency = 1;        ///< speedup by devices
  int64_t replicated = 0;       ///< parameters and buffers to other devices
  int64_t scattered = 0;        ///< samples to other devices
  int64_t gathered = 0;         ///< buffers to the first device; of workers: between all
  int64_t gradients = 0;        ///< to the first device; of workers: between all
  int64_t first_moves = 0;      ///< what the first device sends and receives
  int64_t other_moves = 0;      ///< what each other one does, on average
  int64_t first_peak = 0;       ///< memory of the first device
  int64_t other_peak = 0;       ///< the highest of the others; 0: there is none
  double waiting = 0;           ///< share of the time in which compute waited for communication
  bool shares_cores = false;    ///< fewer processors than devices, with their threads
  std::string digest;           ///< of the model

  /// Devices cannot be that much faster together: the runs with fewer were slowed down.
  bool is_credible() const { return efficiency <= 1.1; }
  int64_t moved() const { return replicated + scattered + gathered + gradients; }
};

/// "one device", "DataParallel", "DDP".
std::string name_of(DataWay way);

/// What a run's events say, without comparisons. Throws Error if they are not of a finished run
/// with enough steps.
DpVsDdpRow row_of(DataWay way, int devices, const std::vector<run::Json>& events);

/// Steps before those that are timed.
inline constexpr int kWarmUpSteps = 5;

/// Trains in all ways, in rounds, and compares them. Throws BadInput for options that cannot be,
/// and Mismatch if ways end with different models.
std::vector<DpVsDdpRow> compare_dp_and_ddp(const DpVsDdpOptions& options);

/// Why one way is faster, in sentences that follow from the rows.
std::vector<std::string> conclusions(const std::vector<DpVsDdpRow>& rows);

}  // namespace lockstep::lab
