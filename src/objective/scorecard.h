#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "lockstep/objective.h"

namespace lockstep::objective {

using Json = nlohmann::ordered_json;

/// What a number of samples gave, added up. How `sums` and `maxima` are laid out is the scorecard's
/// business.
struct Totals {
  double loss = 0;
  double weight = 0;
  int64_t samples = 0;
  std::vector<double> sums = {};
  std::vector<double> maxima = {};

  double mean_loss() const { return weight == 0 ? 0 : loss / weight; }
  /// Either may be empty: nothing was added yet.
  Totals& operator+=(const Totals& other);
};

Json to_json(const Totals& totals);
/// Throws Json::exception for what `to_json` did not write.
Totals totals_from(const Json& json);

/// Turns an objective's measurements of batches into sums that can be added in any number of
/// pieces, and sums into the figures that are reported. For the metrics of one phase.
///
///     loss        sum of losses      | of the batch, then
///     weight      sum of weights     |
///     samples     number of samples  |
///     per single metric: value, and for a mean its weight
///
/// Metrics with Combine::max are kept apart, in `maxima`. Tables are kept apart too: they are large
/// and are only wanted of whole evaluations.
class Scorecard {
 public:
  /// Throws BadInput for metrics that cannot be: no name, one name twice, a table that is not for
  /// evaluation, negative dimensions.
  Scorecard(std::vector<Metric> metrics, Phase phase);

  size_t sums() const { return sums_; }
  size_t maxima() const { return maxima_; }
  size_t tables() const { return tables_; }

  /// Where `score` writes; sums() and maxima() long, tables() or none.
  struct Slot {
    std::span<double> sums;
    std::span<double> maxima;
    std::span<double> tables;
  };
  /// What adds nothing.
  static void clear(const Slot& slot);

  /// Loss and metrics of one batch. Throws BadInput for measurements that are not what `metrics()`
  /// promised, and for a weight below 0 or not a number.
  void score(Objective& objective, const Tensors& outputs, const Batch& batch, const Loss& loss,
             const Slot& slot) const;

  Totals totals(std::span<const double> sums, std::span<const double> maxima) const;

  /// {"loss": 0.31, "accuracy": 0.93}; with a prefix "train_loss", ...
  Json figures(const Totals& totals, const std::string& prefix) const;
  /// {"confusion": [[...], ...]}
  Json table_figures(std::span<const double> tables) const;

 private:
  void write(const Metric& metric, const Measurement& measurement, Slot& rest) const;

  const std::vector<Metric> metrics_;  ///< of the phase
  const Phase phase_;
  size_t sums_ = 0;
  size_t maxima_ = 0;
  size_t tables_ = 0;
};

/// How single metrics are to be shown: {"accuracy": "percent"}. For events, which are all that the
/// terminal and reports see.
Json shown_metrics(const std::vector<Metric>& metrics);

}  // namespace lockstep::objective
