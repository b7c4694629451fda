#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fit/ways.h"
#include "recipe/recipe.h"

namespace lockstep::job {

/// What fits into devices' memory, and how a batch can be trained on them.
struct FitJob {
  Recipe recipe;  ///< its train.batch is the batch that is wanted, device.memory what devices have
  std::vector<std::string> plugins = {};
  std::string devices = {};  ///< which one to measure on; see device/visible.h
  int most_devices = 64;
  double latency = 0;           ///< seconds of a message between devices
  double bytes_per_second = 0;  ///< between devices; 0: as fast as this host copies memory
  /// Called with what is being done.
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

struct FitResult {
  int64_t limit = 0;  ///< of a device's memory, in bytes
  fit::LargestBatch largest;
  std::vector<fit::Way> ways;
  std::vector<std::string> left_out;  ///< sentences that say which ways there are not, and why
  enum class Times { measured, rough };
  Times times = Times::measured;  ///< rough: other programs had the processors, too
};

/// Measures real passes, in this process. Throws BadInput, and ModelError if the model throws for
/// every number of samples.
FitResult find_what_fits(const FitJob& job);

/// What limits the largest batch.
enum class LimitedBy { memory, data };

struct ChosenBatch {
  Recipe recipe;
  LimitedBy limited_by = LimitedBy::memory;
};

/// The recipe asked for with the largest batch that so many workers take, with its stages, shards
/// (by default one for each worker) and pieces. Measures in a process of its own, so that workers
/// can be forked afterwards. Throws BadInput, also if not even passes of one sample fit.
ChosenBatch with_largest_batch(const FitJob& asked, int workers);

}  // namespace lockstep::job
