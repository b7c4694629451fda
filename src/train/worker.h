#pragma once

#include <optional>
#include <string>
#include <vector>

#include "elastic/member.h"
#include "fit/meter.h"
#include "launch/group.h"
#include "launch/job.h"
#include "matpow/matpow.h"
#include "recipe/recipe.h"
#include "run/outcome.h"
#include "run/shared_folder.h"
#include "train/inference.h"
#include "train/libtorch_facts.h"
#include "train/trainer.h"

namespace lockstep::train {

/// The task of one worker of a training job.
struct WorkerTask {
  Recipe recipe;
  std::shared_ptr<const data::TrainingData> data;
  launch::Job job;
  launch::GroupOptions group;
  Trainer::Limits limits;
  std::string devices = {};  ///< of this host, which its workers take; see device/visible.h
  /// Opened on rank 0, which writes the run's events and draws the progress line; other ranks print
  /// only errors.
  run::SharedFolder* folder = nullptr;
  Start start = Start::anew;
  /// This worker's --out, or ""; only rank 0's is used.
  std::string asked_out;
  /// Reasons why the result depends on more than the recipe, if any.
  std::vector<std::string> departures = {};
  /// Digest of the plugins' code; empty without plugins.
  std::string plugins_sha256 = {};
  /// In an elastic job: how to reach the coordinator, which assigns rank and world size.
  std::optional<elastic::MemberOptions> membership = {};
};

/// Connects with the other workers, trains, and returns the outcome. An exception on this worker
/// makes the others throw PeerLost.
run::Outcome train_as_worker(const WorkerTask& task);

/// The functions of liblockstep that the command line calls. The library is loaded at run time:
/// LibTorch takes half a second to load, which commands that do not train need not wait for.
struct TrainerLibrary {
  run::Outcome (*train_as_worker)(const WorkerTask& task);
  /// Throws BadInput; see train/plugins.h.
  void (*register_linked_plugins)();
  void (*load_plugin)(const std::string& library);
  /// Throws BadInput if there is no such model or objective.
  void (*check_names)(const std::string& model, const std::string& objective);
  /// One line per row of a table: "models" or "objectives".
  std::string (*list)(const std::string& table);
  /// See train/inference.h.
  run::Json (*evaluate_model)(const run::ModelFile& file, std::shared_ptr<const Dataset> dataset);
  void (*predict)(const run::ModelFile& file, std::shared_ptr<const Dataset> dataset,
                  const std::function<void(const PredictedRows&)>& take);
  /// See train/libtorch_facts.h.
  LibTorchFacts (*libtorch_facts)();
  /// See matpow/matpow.h.
  matpow::Result (*measure_matpow)(const matpow::Options& options);
  /// See train/pass_meter.h.
  std::unique_ptr<fit::Meter> (*make_pass_meter)(const Recipe& recipe,
                                                 std::shared_ptr<const data::TrainingData> data,
                                                 const std::string& devices);
};

/// The name of the function in it that returns a const TrainerLibrary*.
inline constexpr const char* kTrainerLibrary = "lockstep_trainer_library";

}  // namespace lockstep::train
