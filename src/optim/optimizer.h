#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep::optim {

struct OptimizerOptions {
  /// One of optimizer_names().
  std::string name = "sgd";
  double lr = 0.05;
  /// Whether `lr` is for one worker and is multiplied by how many there are.
  bool scale_lr_by_workers = false;
  double weight_decay = 0;
  /// Whether one-dimensional parameters (biases, BatchNorm's scale and shift) decay too.
  bool decay_bias_and_norm = true;
  double momentum = 0.9;
  double trust = 0.001;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

/// A run of parameters that lie together in memory and are treated alike: a layer's weights, say.
struct Section {
  int64_t begin = 0;
  int64_t end = 0;
  bool decays = true;
};

/// An update rule over one contiguous piece of memory that holds all parameters.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// One update; `update` counts from 1. `values` and `gradients` are as long as the last section's
  /// end.
  virtual void step(std::span<float> values, std::span<const float> gradients, double lr,
                    int64_t update) = 0;

  /// What a checkpoint must keep: named memory laid out like `values`.
  struct State {
    std::string name;
    std::span<float> values;
  };
  virtual std::vector<State> state() = 0;
};

/// Throws BadInput for an unknown name. The sections must cover the memory in order.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::vector<Section> sections);

std::vector<std::string> optimizer_names();

}  // namespace lockstep::optim
