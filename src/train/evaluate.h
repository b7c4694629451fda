#pragma once

#include <vector>

#include "collective/communicator.h"
#include "lockstep/dataset.h"
#include "lockstep/model.h"
#include "lockstep/objective.h"
#include "objective/scorecard.h"

namespace lockstep::train {

struct Evaluation {
  objective::Totals totals;
  std::vector<double> tables;  ///< as the scorecard lays them out
};

/// Loss and metrics over a whole data set, every sample counted exactly once. Workers take batches
/// in turns; the result is the same for every number of them. The model is left in training mode.
Evaluation evaluate(Model& model, Objective& objective, const objective::Scorecard& scorecard,
                    std::shared_ptr<const Dataset> dataset, collective::Communicator& group);

}  // namespace lockstep::train
