#pragma once

#include <cstdint>
#include <vector>

#include "collective/communicator.h"
#include "lockstep/dataset.h"
#include "lockstep/model.h"
#include "lockstep/objective.h"
#include "objective/scorecard.h"

namespace lockstep::train {

/// Samples per batch, in evaluation and prediction. Fixed, because another size may round sums
/// differently.
inline constexpr int64_t kEvaluationBatch = 256;

struct Evaluation {
  objective::Totals totals;
  std::vector<double> tables;  ///< in the scorecard's layout
};

/// Loss and metrics over a whole data set, with every sample counted exactly once. Each worker
/// evaluates a part of the batches; the result does not depend on the world size. The model is left
/// in training mode.
Evaluation evaluate(Model& model, Objective& objective, const objective::Scorecard& scorecard,
                    std::shared_ptr<const Dataset> dataset, collective::Communicator& group);

}  // namespace lockstep::train
