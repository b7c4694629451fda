#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collective/communicator.h"
#include "lockstep/dataset.h"
#include "lockstep/model.h"
#include "lockstep/objective.h"
#include "objective/scorecard.h"
#include "parallel/grid.h"
#include "parallel/model_part.h"

namespace lockstep::train {

/// Samples per batch, in evaluation and prediction: so few that what layers pass on stays in
/// caches. Fixed, because sums over another number of samples may round differently.
inline constexpr int64_t kEvaluationBatch = 64;

struct Evaluation {
  objective::Totals totals;
  std::vector<double> tables;  ///< in the scorecard's layout
};

/// The parts of a model that a worker evaluates, and who has the others.
struct EvaluatedModel {
  struct Part {
    parallel::ModelPart part;
    parallel::PartLinks links = {};
  };

  std::shared_ptr<Model> model;
  std::vector<Part> parts;
  int pipelines = 1;
  int pipeline = 0;  ///< this worker's
};

/// All of a model; every worker of `group` has it.
EvaluatedModel whole(std::shared_ptr<Model> model, const collective::Communicator& group);

/// Loss and metrics over a whole data set, with every sample counted exactly once. Each pipeline
/// evaluates a part of the batches; the result does not depend on their number. The model is left
/// in training mode. `group` is all workers.
///
/// The model computes `at_once` samples of a batch at a time; a worker that has the whole model
/// takes fewer if that many need more memory than the device has. The loss and the metrics of a
/// batch are computed from all its outputs: they depend on `at_once` only where kernels round
/// differently for another number of samples.
Evaluation evaluate(const EvaluatedModel& of, Objective& objective,
                    const objective::Scorecard& scorecard, std::shared_ptr<const Dataset> dataset,
                    collective::Communicator& group, int64_t at_once = kEvaluationBatch);

}  // namespace lockstep::train
