#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/dataset.h"
#include "run/events.h"
#include "run/model_description.h"

namespace lockstep::train {

/// Loss and metrics of a trained model over a data set, which has the fields of the model's
/// description.
///
///     {"loss": 0.25, "accuracy": 0.91, "samples": 10000, "metrics": {"accuracy": "percent"},
///      "tables": {"confusion": [[...], ...], ...}}
run::Json evaluate_model(const run::ModelFile& file, std::shared_ptr<const Dataset> dataset);

/// The outputs of a trained model for some samples, one row per sample.
struct PredictedRows {
  int64_t first;  ///< sample
  int64_t rows;
  std::span<const float> values;  ///< of each row: all outputs, one after another
  const std::vector<Field>& outputs;
};

/// Computes a trained model's outputs for all samples of a data set that has the inputs of the
/// model's description, and no targets. Calls `take` with the rows of one batch after another, in
/// order. If the targets are one class label, rows are the classes' probabilities.
void predict(const run::ModelFile& file, std::shared_ptr<const Dataset> dataset,
             const std::function<void(const PredictedRows&)>& take);

}  // namespace lockstep::train
