#include "train/best.h"

#include <fmt/ranges.h>

#include <cmath>
#include <utility>

#include "base/nearest.h"
#include "lockstep/error.h"

namespace lockstep::train {

using objective::Json;

Json to_json(const Best& best) {
  return {{"step", best.step},
          {"figure", best.figure},
          {"value", best.value},
          {"evaluations_since", best.evaluations_since},
          {"evaluated", best.evaluated}};
}

Best best_from(const Json& json) {
  return {.step = json.at("step"),
          .figure = json.at("figure"),
          .value = json.at("value"),
          .evaluations_since = json.at("evaluations_since"),
          .evaluated = json.at("evaluated")};
}

Ranking::Ranking(std::string figure, const std::vector<Metric>& metrics)
    : figure_(std::move(figure)) {
  if (figure_ == "loss") return;
  std::vector<std::string> names = {"loss"};
  for (const Metric& metric : metrics) {
    if (!metric.shape.empty()) continue;
    names.push_back(metric.name);
    if (metric.name != figure_) continue;
    higher_is_better_ = metric.better == Metric::Better::higher;
    return;
  }
  throw BadInput("train.best_by = \"{}\": the objective has no such figure{}; there are: {}",
                 figure_, did_you_mean(figure_, names), fmt::join(names, ", "));
}

bool Ranking::note(Best& best, int64_t step, const objective::Totals& totals,
                   const objective::Scorecard& scorecard) const {
  if (step == best.evaluated) return step == best.step;
  const double value = scorecard.figure(totals, figure_);
  const bool better =
      std::isfinite(value) &&
      (best.step == 0 || (higher_is_better_ ? value > best.value : value < best.value));
  best.evaluated = step;
  best.figure = figure_;
  ++best.evaluations_since;
  if (!better) return false;
  best.step = step;
  best.value = value;
  best.evaluations_since = 0;
  return true;
}

}  // namespace lockstep::train
