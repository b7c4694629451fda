#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fit/costs.h"
#include "fit/memory_needs.h"
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
  StagePlace place = StagePlace::workers;
  std::vector<Range> split = {};  ///< with stages: the layers of each
  int64_t samples_per_pass = 1;

  DeviceNeeds needs = {};
  double seconds_per_step = 0;
  bool fits = false;
  bool measured = true;      ///< its passes were measured; else computed from smaller ones
  bool known = true;         ///< else nothing could be measured: it needs more than the limit
  std::string refusal = {};  ///< what the model throws for its passes; empty if it computes them

  int devices() const { return pipelines * stages; }
  /// "data parallel + accumulate".
  std::string name() const;
  /// Flags of `lockstep train` that do it, where the recipe is as it is without flags for these.
  std::vector<std::string> flags(const Recipe& recipe) const;
};

/// What one way needs and takes.
Way predicted(Way way, const Question& question, Costs& costs);

}  // namespace lockstep::fit
