#pragma once

#include <cstdint>
#include <memory>

#include "data/loader.h"
#include "model/model.h"
#include "observe/spans.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "recipe/recipe.h"
#include "train/flat_parameters.h"

namespace lockstep::train {

/// What a number of samples gave, added up.
struct Totals {
  double loss = 0;  ///< summed over samples
  int64_t correct = 0;
  int64_t samples = 0;

  double mean_loss() const { return samples == 0 ? 0 : loss / static_cast<double>(samples); }
  double accuracy() const {
    return samples == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(samples);
  }
  Totals& operator+=(const Totals& other);
};

/// A batch's values and labels as tensors over the loader's memory.
struct BatchTensors {
  torch::Tensor values;
  torch::Tensor labels;
};
BatchTensors to_tensors(const data::Batch& batch, const data::Shape& shape);

/// One optimizer update on one batch.
class Step {
 public:
  /// `model` has the sample shape `shape`; its parameters are made contiguous.
  Step(const Recipe& recipe, std::shared_ptr<model::Model> model, data::Shape shape,
       optim::Schedule schedule);

  /// Step number `step`, counted from 0. The times go to `spans`.
  Totals run(const data::Batch& batch, int64_t step, observe::SpanTimes& spans);

  double learning_rate(int64_t step) const { return schedule_.at(step); }
  FlatParameters& parameters() { return parameters_; }
  optim::Optimizer& optimizer() { return *optimizer_; }

 private:
  std::shared_ptr<model::Model> model_;
  data::Shape shape_;
  FlatParameters parameters_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  optim::Schedule schedule_;
  int64_t seed_;
  double label_smoothing_;
};

}  // namespace lockstep::train
