#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/elastic_job.h"
#include "launch/connect.h"
#include "launch/placement.h"

namespace lockstep::cli {

/// A flag that sets a recipe key.
struct KeyFlag {
  std::string flag;
  std::string key;
  std::string kind;   ///< of its value; empty: it has none, and sets the key to true
  std::string about;  ///< empty: help does not show it
  std::optional<std::string> value = {};
};

struct TrainFlags {
  std::optional<std::string> recipe;
  std::vector<KeyFlag> keys = {
      {"--data", "data.name", "NAME", "a data set of `lockstep list datasets`, such as npy:DIR"},
      {"--model", "model.name", "NAME", "a model of `lockstep list models`"},
      {"--objective", "objective.name", "NAME",
       "loss and metrics: an objective of `lockstep list objectives`"},
      {"--weights", "model.weights", "FILE", "start from these weights (safetensors)"},
      {"--batch", "train.batch", "N",
       "samples per step, over all workers; auto: as many as fit into --device-memory"},
      {"--shards", "train.shards", "N", "equal parts of a batch; a worker computes one or more"},
      {"--accumulate", "train.accumulate", "N",
       "compute each shard in N pieces, one after another, to use less memory"},
      {"--precision", "train.precision", "NAME",
       "fp32 (default), or bf16 for half of the activations' memory"},
      {"--epochs", "train.epochs", "N", "passes over the training split"},
      {"--steps", "train.steps", "N", "end after this many steps, instead of --epochs"},
      {"--lr", "optimizer.lr", "RATE", "highest learning rate"},
      {"--seed", "train.seed", "N", "seed of all random numbers"},
      {"--device", "device.kind", "KIND", "a kind of device of `lockstep list devices`"},
      {"--device-memory", "device.memory", "SIZE", "memory of each device, such as 8GiB"},
      {"--parallel", "parallel.mode", "MODE",
       "ddp: one device for each worker (default); dp: one worker with all --devices; pipeline: "
       "with --stages"},
      {"--stages", "parallel.stages", "N",
       "divide the model between N devices, which compute one after another: a pipeline"},
      {"--schedule", "parallel.schedule", "NAME",
       "the order in which stages compute: see `lockstep list pipeline-schedules`"},
      {"--split", "parallel.split", "LAYERS",
       "layers with which stages begin but the first: 3,7,9 or layer2.0,layer3.0,layer4.0"},
      {"--zero", "parallel.zero", "",
       "divide the optimizer's state among workers: less memory, the same result"},
  };
  bool auto_batch = false;  ///< --batch auto: the largest that devices take
  std::vector<std::string> settings;
  std::vector<std::string> plugins;
  launch::PlacementFlags placement;
  job::ElasticFlags elastic;
  std::string transport = "auto";
  std::string algorithm = "auto";
  std::optional<std::string> out;
  bool resume = false;
  bool force = false;
  bool verbose = false;
  bool json = false;
  bool print_recipe = false;
  std::optional<int64_t> stop_at_step;
  double silence = launch::ConnectOptions{}.silence_seconds;
};

/// For a command that takes fewer of them: its help does not show these, which it refuses itself,
/// nor `--batch auto`.
void hide(TrainFlags& flags, std::initializer_list<std::string_view> refused);

/// Those that say what is trained: a recipe, keys of it, and plugins.
void add_recipe_flags(CLI::App& app, TrainFlags& flags);

/// All flags of `lockstep train`.
void add_train_flags(CLI::App& app, TrainFlags& flags);

}  // namespace lockstep::cli
