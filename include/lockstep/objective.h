#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/batch.h"
#include "lockstep/dataset.h"
#include "lockstep/nn.h"
#include "lockstep/options.h"

namespace lockstep {

/// The loss of a batch: a sum over its items, and what that sum is divided by for the mean. A step
/// minimises the sum over all shards divided by their weights' sum, so unequal shards count right.
struct Loss {
  torch::Tensor sum;  ///< a single number
  double weight = 0;  ///< what it is divided by
};

/// Why a batch is computed.
enum class Phase {
  training,    ///< to update parameters
  evaluation,  ///< to judge them
};

/// A figure that is reported beside the loss.
struct Metric {
  /// What becomes of the measurements of many batches.
  enum class Combine {
    mean,  ///< the sum of values divided by the sum of weights
    sum,   ///< the sum of values
    max,   ///< the largest value
  };
  /// How it is shown on the terminal.
  enum class Print {
    number,   ///< 0.9132
    percent,  ///< 91.32 %
  };
  /// When it is measured.
  enum class When {
    always,      ///< in training too
    evaluation,  ///< only when the model is judged
  };

  std::string name;  ///< events call it "accuracy", "train_accuracy" or "test_accuracy"
  Combine combine = Combine::mean;  ///< over batches
  Print print = Print::number;      ///< on the terminal
  When when = When::always;         ///< measured
  /// {} for a single figure; {10, 10} for a table. A table's values and weights must be whole
  /// numbers (counts), and it is only for evaluation and not for Combine::max.
  Shape shape = {};
};

/// What a batch adds to a metric.
struct Measurement {
  /// For Combine::mean: a sum, and what it is divided by.
  Measurement(double value, double weight) : values{value}, weights{weight} {}
  /// For Combine::sum and Combine::max, which have no weights.
  explicit Measurement(double value) : values{value} {}
  /// For a table of Combine::mean: both have its shape.
  Measurement(const torch::Tensor& values, const torch::Tensor& weights);
  /// For a table of Combine::sum.
  explicit Measurement(const torch::Tensor& values);

  std::vector<double> values;   ///< one, or a table's in row-major order
  std::vector<double> weights;  ///< as many, or none
};

/// What is learnt: the loss of a batch, and the metrics beside it.
///
///     class AbsoluteError : public lockstep::Objective {
///      public:
///       explicit AbsoluteError(const lockstep::ObjectiveOptions& options)
///           : targets_(options.fields.targets) {}
///
///       std::vector<lockstep::Field> outputs() const override { return targets_; }
///       lockstep::Loss loss(const lockstep::Tensors& outputs,
///                           const lockstep::Batch& batch) override {
///         const auto error = outputs.only() - batch.targets.only();
///         return {error.abs().sum(), static_cast<double>(batch.items)};
///       }
///
///      private:
///       std::vector<lockstep::Field> targets_;
///     };
class Objective {
 public:
  virtual ~Objective() = default;

  /// What a model must give, of one sample.
  virtual std::vector<Field> outputs() const = 0;

  /// The loss of a batch. `outputs` are what the model made of its inputs. The weight is at least
  /// 0. Training stops with an error when the sum is not a number.
  virtual Loss loss(const Tensors& outputs, const Batch& batch) = 0;

  /// What is reported beside the loss: the same at every call and on every worker.
  virtual std::vector<Metric> metrics() const { return {}; }

  /// What the batch adds to each of `metrics()`, in their order, leaving out those that are only
  /// for evaluation while `phase` is training. Called without gradients.
  virtual std::vector<Measurement> measure(const Tensors& outputs, const Batch& batch,
                                           Phase phase) {
    return {};
  }
};

/// What an objective is made for.
struct ObjectiveOptions {
  Fields fields;                             ///< of the data set
  nn::Kernels kernels = nn::Kernels::fused;  ///< which ones to use
  Options options;                           ///< the recipe's [objective.options]
};

}  // namespace lockstep
