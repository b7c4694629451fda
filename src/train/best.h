#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "objective/scorecard.h"

namespace lockstep::train {

/// The best evaluation of a run so far, of those at the end of an epoch.
struct Best {
  int64_t step = 0;               ///< after which it was evaluated; 0: there is none yet
  std::string figure = {};        ///< what it is the best by
  double value = 0;               ///< of the figure
  int64_t evaluations_since = 0;  ///< in a row, none of them better
  int64_t evaluated = 0;          ///< the step after which the last one was
};

objective::Json to_json(const Best& best);
/// Throws Json::exception for any other value.
Best best_from(const objective::Json& json);

/// Compares evaluations by one figure: the recipe's train.best_by.
class Ranking {
 public:
  /// Throws BadInput unless it is "loss" or one of the metrics that are single numbers.
  Ranking(std::string figure, const std::vector<Metric>& metrics);

  const std::string& figure() const { return figure_; }

  /// Takes an evaluation into account. Returns whether it is the best one. One whose figure is not
  /// finite never is. The same one may be noted again: a run that lost a worker may repeat it.
  bool note(Best& best, int64_t step, const objective::Totals& totals,
            const objective::Scorecard& scorecard) const;

 private:
  const std::string figure_;
  bool higher_is_better_ = false;
};

}  // namespace lockstep::train
