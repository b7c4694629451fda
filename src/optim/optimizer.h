#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/range.h"
#include "base/table.h"

namespace lockstep::optim {

/// The recipe's [optimizer]. Which of them an optimizer uses is said in its row of optimizers().
struct OptimizerOptions {
  /// One of optimizers().
  std::string name = "sgd";
  double lr = 0.05;
  /// Whether `lr` is for one worker and is multiplied by how many there are.
  bool scale_lr_by_workers = false;
  double weight_decay = 0;
  /// Whether one-dimensional parameters (biases, BatchNorm's scale and shift) decay too.
  bool decay_bias_and_norm = true;
  /// Gradients are scaled before an update so that their norm is at most this; 0: never.
  double clip_norm = 0;
  double momentum = 0.9;
  double trust = 0.001;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

/// A contiguous range of parameters that are treated alike, such as a layer's weights.
struct Section {
  int64_t begin = 0;
  int64_t end = 0;
  bool decays = true;
};

/// How many parameters the sections cover.
int64_t length(const std::vector<Section>& sections);

/// What lies in `range` of memory that the sections cover, as sections of memory that begins there.
std::vector<Section> clipped(const std::vector<Section>& sections, Range range);

/// An update rule over contiguous memory with all parameters.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// One update; `update` counts from 1. `values` and `gradients` are as long as the last section's
  /// end.
  virtual void step(std::span<float> values, std::span<const float> gradients, double lr,
                    int64_t update) = 0;

  /// State for checkpoints: named memory with the layout of `values`.
  struct State {
    std::string name;
    std::span<float> values;
  };
  virtual std::vector<State> state() = 0;
};

struct OptimizerRow {
  std::string name;
  std::string about;
  /// The keys of [optimizer] that this optimizer uses, of those that not all use: "momentum".
  std::vector<std::string> uses;
  /// How many numbers it keeps for each parameter: the length of `Optimizer::state`.
  int64_t state_per_parameter;
  /// Whether the update of a part of the memory is that part of the update of all of it, bit for
  /// bit, so that workers can divide the memory among them at any place.
  bool elementwise;
  std::unique_ptr<Optimizer> (*make)(const OptimizerOptions& options,
                                     std::vector<Section> sections);
};

/// The values of `optimizer.name`.
Table<OptimizerRow>& optimizers();

/// Throws BadInput for an unknown name. The sections must cover the memory in order.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::vector<Section> sections);

}  // namespace lockstep::optim
