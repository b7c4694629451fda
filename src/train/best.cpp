#include "train/best.h"

#include <fmt/ranges.h>

#include <cmath>
#include <utility>

#include "base/nearest.h"
#include "lockstep/error.h"

namespace lockstep::train {

using objective::Json;

Json to_json(const Best& best) {
  return {
      {"step", best.step}, {"value", best.value}, {"evaluations_since", best.evaluations_since}};
}

Best best_from(const Json& json) {
  return {.step = json.at("step"),
          .value = json.at("value"),
          .evaluations_since = json.at("evaluations_since")};
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
  const Json figures = scorecard.figures(totals, "");
  const Json& figure = figures.at(figure_);
  const double value = figure.is_number() ? figure.get<double>() : std::nan("");
  const bool better =
      std::isfinite(value) &&
      (best.step == 0 || (higher_is_better_ ? value > best.value : value < best.value));
  if (better)
    best = {step, value, 0};
  else
    ++best.evaluations_since;
  return better;
}

}  // namespace lockstep::train
