#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fit/costs.h"
#include "recipe/recipe.h"
#include "sim/network.h"

namespace lockstep::fit {

/// How a batch shall be trained, and on what.
struct Question {
  Recipe recipe;      ///< its train.batch is the batch that is wanted
  int64_t limit = 0;  ///< of a device's memory, in bytes
  int most_devices = 64;
  sim::Network network = {};  ///< between devices
};

/// A device's memory in a way, in bytes: that of the device which needs most.
struct DeviceNeeds {
  int64_t parameters = 0;  ///< and buffers
  int64_t gradients = 0;
  int64_t optimizer = 0;
  int64_t activations = 0;  ///< of passes, with what kernels need
  int64_t batches = 0;      ///< samples that wait on the device

  int64_t sum() const { return parameters + gradients + optimizer + activations + batches; }
};

/// One way to train a batch.
struct Way {
  int pipelines = 1;  ///< which divide the batch; without stages, workers
  int stages = 1;
  int64_t shards = 1;      ///< of the pipeline that has most
  int64_t accumulate = 1;  ///< pieces of a shard
  bool recompute = false;
  bool zero = false;
  std::string precision = "fp32";
  std::string schedule = "1f1b";  ///< of stages
  std::vector<Range> split = {};  ///< with stages: the layers of each
  int64_t samples_per_pass = 1;

  DeviceNeeds needs = {};
  double seconds_per_step = 0;
  bool fits = false;
  bool measured = true;  ///< its passes were measured; else computed from smaller ones
  bool known = true;     ///< else nothing could be measured: it needs more than the limit

  int devices() const { return pipelines * stages; }
  /// "data parallel + accumulate".
  std::string name() const;
  /// Flags of `lockstep train` that do it, where the recipe is as it is without flags for these.
  std::vector<std::string> flags(const Recipe& recipe) const;
};

/// What one way needs and takes.
Way predicted(Way way, const Question& question, Costs& costs);

/// Ways to train the batch, those that fit first, the fastest first: data parallelism, stages and
/// recomputation, each alone and with pieces or ZeRO, on as few devices as fit (where none fits,
/// the one that needs the least memory); and of all combinations those that are the fastest on so
/// many devices.
std::vector<Way> find_ways(const Question& question, Costs& costs);

/// The largest batch that devices take.
struct LargestBatch {
  int64_t batch = 0;  ///< 0: not even passes of one sample fit
  DeviceNeeds needs = {};
  std::vector<Range> split = {};  ///< with stages
  bool is_all_samples = false;    ///< the data set has no more
};
/// In this way, with so many passes of all pipelines, each of as many samples as fit. Found by
/// measuring: so many fit, and one more does not. `most` is how many samples there are.
LargestBatch largest_batch(const Way& way, int64_t passes, const Question& question, Costs& costs,
                           int64_t most);

}  // namespace lockstep::fit
