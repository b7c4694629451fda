#pragma once

#include <cstdint>
#include <vector>

#include "collective/communicator.h"
#include "lockstep/dataset.h"
#include "lockstep/model.h"
#include "lockstep/objective.h"
#include "objective/scorecard.h"

namespace lockstep::train {

/// Samples per batch, in evaluation and prediction. Fixed, because sums over another number of
/// samples may round differently.
inline constexpr int64_t kEvaluationBatch = 256;

struct Evaluation {
  objective::Totals totals;
  std::vector<double> tables;  ///< in the scorecard's layout
};

/// Loss and metrics over a whole data set, with every sample counted exactly once. Each worker
/// evaluates a part of the batches; the result does not depend on the world size. The model is left
/// in training mode.
///
/// The model computes `at_once` samples of a batch at a time, and fewer if that many need more
/// memory than the device has. The loss and the metrics of a batch are computed from all its
/// outputs: they depend on `at_once` only where kernels round differently for another number of
/// samples.
Evaluation evaluate(Model& model, Objective& objective, const objective::Scorecard& scorecard,
                    std::shared_ptr<const Dataset> dataset, collective::Communicator& group,
                    int64_t at_once = kEvaluationBatch);

}  // namespace lockstep::train
