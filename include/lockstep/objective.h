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
  torch::Tensor sum;
  double weight = 0;
};

enum class Phase { training, evaluation };

/// A figure that is reported beside the loss.
struct Metric {
  enum class Combine {
    mean,  ///< of values divided by the sum of weights
    sum,
    max,
  };
  enum class Print { number, percent };
  enum class When { always, evaluation };

  std::string name;  ///< events call it "accuracy", "train_accuracy" or "test_accuracy"
  Combine combine = Combine::mean;
  Print print = Print::number;
  When when = When::always;
  /// {} for a single figure; {10, 10} for a table. A table's values and weights must be whole
  /// numbers (counts), and it is only for evaluation and not for Combine::max.
  Shape shape = {};
};

/// What a batch adds to a metric.
struct Measurement {
  Measurement(double value, double weight) : values{value}, weights{weight} {}
  /// For Combine::sum and Combine::max, which have no weights.
  explicit Measurement(double value) : values{value} {}
  /// For a table.
  Measurement(const torch::Tensor& values, const torch::Tensor& weights);
  explicit Measurement(const torch::Tensor& values);

  std::vector<double> values;
  std::vector<double> weights;
};

/// What is learnt: the loss of a batch, and the metrics beside it.
///
///     class AbsoluteError : public lockstep::Objective {
///      public:
///       explicit AbsoluteError(const lockstep::ObjectiveOptions& options) :
///       fields_(options.fields) {} std::vector<lockstep::Field> outputs() const override { return
///       fields_.targets; } lockstep::Loss loss(const lockstep::Tensors& outputs, const
///       lockstep::Batch& batch) override {
///         return {(outputs.only() - batch.targets.only()).abs().sum(), double(batch.items)};
///       }
///      private:
///       lockstep::Fields fields_;
///     };
class Objective {
 public:
  virtual ~Objective() = default;

  /// What a model must give, of one sample.
  virtual std::vector<Field> outputs() const = 0;

  /// `outputs` are what the model made of the batch's inputs. The weight is at least 0. Training
  /// stops with an error when the sum is not a number.
  virtual Loss loss(const Tensors& outputs, const Batch& batch) = 0;

  /// The same at every call and on every worker.
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
  Fields fields;  ///< of the data set
  nn::Kernels kernels = nn::Kernels::fused;
  Options options;  ///< the recipe's [objective.options]
};

}  // namespace lockstep
