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

/// The loss of a batch, as a sum and its weight. A step minimises the sum over all shards divided
/// by the sum of their weights, so that shards of different sizes count correctly.
struct Loss {
  torch::Tensor sum;  ///< a scalar
  double weight = 0;  ///< the number of items, or the sum of their weights
};

/// The purpose of a forward pass.
enum class Phase {
  training,    ///< before a backward pass
  evaluation,  ///< on the test split
};

/// A number that is reported together with the loss.
struct Metric {
  /// How measurements of several batches are combined.
  enum class Combine {
    mean,  ///< the sum of values divided by the sum of weights
    sum,   ///< the sum of values
    max,   ///< the largest value
  };
  /// How it is printed.
  enum class Print {
    number,   ///< 0.9132
    percent,  ///< 91.32 %
  };
  /// When it is measured.
  enum class When {
    always,      ///< in training and evaluation
    evaluation,  ///< only in evaluation
  };
  /// Which of two values is better, if a recipe has this metric as train.best_by.
  enum class Better {
    higher,  ///< as of an accuracy
    lower,   ///< as of an error
  };

  std::string name;                 ///< in events: "accuracy", "train_accuracy", "test_accuracy"
  Combine combine = Combine::mean;  ///< of batches
  Print print = Print::number;      ///< in the progress line
  When when = When::always;         ///< phases in which it is measured
  Better better = Better::higher;   ///< which values are wanted
  /// {}: a single number. {10, 10}: a table. Values and weights of a table must be integers
  /// (counts); tables are only for evaluation, and cannot be combined by max.
  Shape shape = {};
};

/// The contribution of one batch to a metric.
struct Measurement {
  /// For Combine::mean: a sum and its weight.
  Measurement(double value, double weight) : values{value}, weights{weight} {}
  /// For Combine::sum and Combine::max.
  explicit Measurement(double value) : values{value} {}
  /// For a table with Combine::mean: both tensors have its shape.
  Measurement(const torch::Tensor& values, const torch::Tensor& weights);
  /// For a table with Combine::sum.
  explicit Measurement(const torch::Tensor& values);

  std::vector<double> values;   ///< one, or those of a table in row-major order
  std::vector<double> weights;  ///< as many for Combine::mean, else none
};

/// Defines what is trained: the loss of a batch, and its metrics.
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

  /// The fields that a model must output for one sample. Outputs with as many elements are reshaped
  /// to these shapes before they are passed to the functions below; others are refused.
  virtual std::vector<Field> outputs() const = 0;

  /// The loss of a batch, given the model's outputs. The weight must be at least 0. Training stops
  /// with an error if the sum is not finite.
  virtual Loss loss(const Tensors& outputs, const Batch& batch) = 0;

  /// Whether a target that is a class label may also be the probabilities of all classes, f32 of
  /// shape {samples, classes}. The recipe's data.mixup needs this.
  virtual bool takes_probabilities() const { return false; }

  /// The metrics. Must be the same at every call and on every worker.
  virtual std::vector<Metric> metrics() const { return {}; }

  /// One measurement for each of `metrics()`, in their order; in training, without those that are
  /// only for evaluation. Gradients are disabled.
  virtual std::vector<Measurement> measure(const Tensors& outputs, const Batch& batch,
                                           Phase phase) {
    return {};
  }
};

/// Passed to the function that makes an objective.
struct ObjectiveOptions {
  Fields fields;                             ///< fields of the data set
  nn::Kernels kernels = nn::Kernels::fused;  ///< the recipe's train.kernels
  Options options;                           ///< the recipe's [objective.options]
};

}  // namespace lockstep
