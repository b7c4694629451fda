#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/elastic_flags.h"
#include "cli/train_result.h"
#include "launch/connect.h"
#include "launch/placement.h"

namespace lockstep::cli {

/// A flag that is short for a recipe key.
struct KeyFlag {
  std::string flag;
  std::string key;
  std::string kind;
  std::string about;
  std::optional<std::string> value;
};

struct TrainFlags {
  std::optional<std::string> recipe;
  std::vector<KeyFlag> keys = {
      {"--data", "data.name", "NAME", "fashion-mnist, mnist, cifar10, npy:DIR or folder:DIR", {}},
      {"--model", "model.name", "NAME", "convnet, mlp, logistic, resnet18, resnet20, ...", {}},
      {"--weights", "model.weights", "FILE", "start from these weights (safetensors)", {}},
      {"--batch", "train.batch", "N", "samples a step, over all workers", {}},
      {"--shards", "train.shards", "N", "slices of a batch; a worker computes one or more", {}},
      {"--epochs", "train.epochs", "N", "passes over the training split", {}},
      {"--steps", "train.steps", "N", "end after this many steps instead of by epochs", {}},
      {"--lr", "optimizer.lr", "RATE", "highest learning rate", {}},
      {"--seed", "train.seed", "N", "every random number follows from this", {}},
  };
  std::vector<std::string> settings;
  launch::PlacementFlags placement;
  ElasticFlags elastic;
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

  ResultFormat format() const { return json ? ResultFormat::json : ResultFormat::text; }
};

}  // namespace lockstep::cli
