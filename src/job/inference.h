#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/input_files.h"
#include "recipe/recipe.h"
#include "train/inference.h"

namespace lockstep::job {

/// What `lockstep evaluate` does.
struct EvaluateJob {
  std::filesystem::path model;  ///< a run's folder, or a file
  /// The data set; empty: the one that the model was trained on, divided as it was then. One of the
  /// same kind ("npy:...") has the same options. Of other data without a test split all samples are
  /// evaluated.
  std::string data = {};
  /// Changes the recipe's [data].
  std::function<void(Recipe&)> change = {};
  enum class Split { train, validation, test } split = Split::test;
  std::vector<std::string> plugins = {};
};

/// Loss and metrics as evaluate_model returns them, with "model" (the file), "data", "split"
/// ("all" if other data than the model's own have no test split) and "seconds".
/// Throws BadInput.
run::Json evaluate(const EvaluateJob& job);

/// What `lockstep predict` does.
struct PredictJob {
  std::filesystem::path model;
  std::vector<std::filesystem::path> files;  ///< images, folders of images, .npy arrays
  std::vector<std::string> plugins = {};
};

/// The samples that are predicted, and the model's targets.
struct Predicted {
  const data::InputFiles& inputs;
  const std::vector<Field>& targets;
};

/// Calls `take` with the outputs of one batch after another. Throws BadInput.
void predict(const PredictJob& job,
             const std::function<void(const Predicted&, const train::PredictedRows&)>& take);

}  // namespace lockstep::job
