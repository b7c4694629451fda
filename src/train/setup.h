#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/agreement.h"
#include "collective/communicator.h"
#include "data/loader.h"
#include "data/training_data.h"
#include "lockstep/model.h"
#include "lockstep/objective.h"
#include "lockstep/world.h"
#include "objective/scorecard.h"
#include "parallel/device_mirrors.h"
#include "parallel/grid.h"
#include "parallel/model_part.h"
#include "recipe/recipe.h"
#include "train/batch_tensors.h"
#include "train/best.h"
#include "train/trainer.h"

namespace lockstep::train {

/// A recipe's data, objective and model, loaded and checked, so that all errors of a recipe are
/// found before the run's folder is created.
struct Setup {
  /// Collective. Throws BadInput; Mismatch if workers have different recipes, data, metrics or
  /// `facts`.
  Setup(Recipe recipe, World world, std::shared_ptr<const data::TrainingData> data, Facts facts,
        Start start, const std::string& selected_devices);
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  const Recipe recipe;
  World world;
  collective::Communicator& group;
  const std::shared_ptr<parallel::Grid> grid;
  const collective::Shards shards;         ///< of pipelines
  const std::vector<c10::Device> devices;  ///< by stage of this worker; with "dp" all that it has
  const std::shared_ptr<const data::TrainingData> data;
  const std::shared_ptr<Objective> objective;
  /// Where other workers compute parts of it, their parameters and buffers are empty here.
  const std::shared_ptr<Model> model;
  std::vector<parallel::ModelPart> parts;  ///< of the model, that this worker computes
  /// With parallel.mode = "dp": the model on this worker's other devices.
  std::shared_ptr<parallel::DeviceMirrors> mirrors;
  std::map<std::string, size_t> parameters;  ///< of the whole model: positions of trained ones
  int64_t parameter_count = 0;               ///< numbers in them
  std::vector<std::string> left_weights;     ///< of model.weights, and why they do not fit
  /// Whether model.weights was not there to be loaded.
  bool lacks_weights = false;
  std::string stage_advice;               ///< see Division::advice
  const objective::Scorecard evaluation;  ///< of the validation and test splits
  const Ranking ranking;
  const std::shared_ptr<DeviceBatches> batches;
  data::Loader loader;
  const int64_t steps_per_epoch;
  const int64_t total_steps;

  const Dataset& train() const { return *data->splits.train; }
  const Dataset& test() const { return *data->splits.test; }
  bool has_validation() const { return data->splits.validation != nullptr; }

 private:
  void load_initial_weights(Start start);
  void divide_model();
  c10::Device device_of(size_t part) const { return devices[part % devices.size()]; }
  /// Throws OutOfMemory.
  void require_memory_for_parts(const std::string& advice) const;
  void mirror_model(const std::function<parallel::ModelPart(std::shared_ptr<Model>)>& whole);
};

}  // namespace lockstep::train
