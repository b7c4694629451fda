#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/agreement.h"
#include "data/training_data.h"
#include "lockstep/options.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "pipeline/schedule.h"

namespace lockstep {

/// Everything that determines a run's result. Read from TOML, changed by flags and `--set`, and
/// written to the run's folder with all keys. The table in keys.cpp defines each key's meaning.
struct Recipe {
  data::DataOptions data;

  struct ModelSection {
    std::string name = "convnet";
    std::string weights;
    bool weights_partial = false;
    Options options;
  } model;

  struct ObjectiveSection {
    std::string name = "classification";
    Options options;
  } objective;

  struct TrainSection {
    int64_t batch = 128;
    int64_t shards = 0;
    int64_t accumulate = 1;
    int64_t epochs = 10;
    int64_t steps = 0;
    std::string best_by = "loss";
    int64_t patience = 0;
    int64_t seed = 1;
    int64_t threads = 1;
    std::string kernels = "fused";
    std::string precision = "fp32";
    std::string compress = "none";
    int64_t compress_rank = 2;
    bool drop_last = false;
  } train;

  optim::OptimizerOptions optimizer;
  optim::ScheduleOptions schedule;

  struct DeviceSection {
    std::string kind = "cpu";
    std::string memory;
    bool asynchronous = false;
  } device;

  struct ParallelSection {
    std::string mode = "ddp";
    int64_t stages = 1;
    int64_t parts_per_stage = 0;
    std::string schedule = "1f1b";
    std::string split;
    bool recompute = false;
    bool zero = false;
  } parallel;

  struct EvaluateSection {
    int64_t batch = 64;
  } evaluate;

  struct CheckpointSection {
    int64_t every_steps = 0;
    std::string keep = "2";
  } checkpoint;

  struct LogSection {
    int64_t every_steps = 10;
    int64_t digest_every_steps = 100;
  } log;
};

/// Reads a recipe. Keys that the file does not have are those of `defaults`. Throws BadInput naming
/// the file, the line and the nearest known key.
Recipe read_recipe(const std::filesystem::path& path, Recipe defaults = {});

/// Sets one key from text: set(recipe, "optimizer.lr", "0.1"). Throws BadInput.
void set(Recipe& recipe, std::string_view name, std::string_view value);

/// Throws BadInput naming the first key with an invalid value, such as a batch under 1.
void validate(const Recipe& recipe);

/// The number of shards of a global batch: train.shards, or by default the largest number up to 8
/// that divides the batch.
int64_t shards_of(const Recipe& recipe);

/// The number of passes over a global batch: every shard is computed in train.accumulate pieces,
/// with one pass each.
int64_t pieces_of(const Recipe& recipe);

/// Whether one worker computes shards on several devices, each of which has the whole model.
bool is_data_parallel(const Recipe& recipe);

/// How [parallel] divides the model; the number of micro-batches is not in it.
pipeline::PipelineShape pipeline_shape(const Recipe& recipe);

/// What checkpoint.keep means.
struct KeptCheckpoints {
  int64_t newest;
  bool best;  ///< whether the weights of the best epoch are kept too
};
KeptCheckpoints kept_checkpoints(const Recipe& recipe);

/// Throws BadInput if there are more workers than shards, or more than parallel.mode has.
void check_worker_count(const Recipe& recipe, int workers);

/// With parallel.mode = "dp": throws BadInput if there are more devices than passes over a batch.
void check_device_count(const Recipe& recipe, int64_t devices);

/// Keys that are set but have no effect: "schedule.milestones has no effect with cosine".
std::vector<std::string> without_effect(const Recipe& recipe);

/// The whole recipe as TOML, every key with its meaning beside it.
std::string to_toml(const Recipe& recipe);

/// The keys that change the result, with their values as text; options ("model.options.width") too.
Facts result_values(const Recipe& recipe);

/// A key that changes the result and has two values.
struct ChangedKey {
  std::string key;
  std::string now;
  std::string before;
};
std::vector<ChangedKey> changed_keys(const Facts& now, const Facts& before);

/// The keys that change the result and differ: "train.batch: 128, was 64".
std::vector<std::string> differences(const Recipe& now, const Recipe& before);
std::vector<std::string> differences(const Facts& now, const Facts& before);

}  // namespace lockstep
