#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "lockstep/objective.h"

namespace lockstep::objective {

using Json = nlohmann::ordered_json;

/// Loss and metrics of a number of samples, added up. The scorecard defines the layout of `sums`
/// and `maxima`.
struct Totals {
  double loss = 0;
  double weight = 0;
  int64_t samples = 0;
  std::vector<double> sums = {};
  std::vector<double> maxima = {};

  double mean_loss() const { return weight == 0 ? 0 : loss / weight; }
  /// Either may be empty, if nothing was added yet.
  Totals& operator+=(const Totals& other);
};

Json to_json(const Totals& totals);
/// Throws Json::exception for any other value.
Totals totals_from(const Json& json);

/// Converts an objective's measurements of batches to sums, which can be added over any number of
/// pieces, and sums to the reported metrics. For the metrics of one phase.
///
///     loss        sum of losses      | of the batch, then
///     weight      sum of weights     |
///     samples     number of samples  |
///     per single metric: value, and for a mean its weight
///
/// Metrics with Combine::max are stored separately, in `maxima`. So are tables, which are large and
/// used only for whole evaluations.
class Scorecard {
 public:
  /// Throws BadInput for invalid metrics: no name, a duplicate name, a table that is not for
  /// evaluation, a dimension below 1.
  Scorecard(std::vector<Metric> metrics, Phase phase);

  size_t sums() const { return sums_; }
  size_t maxima() const { return maxima_; }
  size_t tables() const { return tables_; }

  /// Where `score` writes: spans of sums(), maxima(), and tables() or 0 elements.
  struct Slot {
    std::span<double> sums;
    std::span<double> maxima;
    std::span<double> tables;
  };
  /// Sets the neutral values of addition and maximum.
  static void clear(const Slot& slot);

  /// Loss and metrics of one batch. Throws BadInput for measurements that do not match `metrics()`,
  /// and for a weight below 0 or NaN.
  void score(Objective& objective, const Tensors& outputs, const Batch& batch, const Loss& loss,
             const Slot& slot) const;

  Totals totals(std::span<const double> sums, std::span<const double> maxima) const;

  /// {"loss": 0.31, "accuracy": 0.93}; with a prefix "train_loss", ... A mean of nothing, whose
  /// weight is 0, is 0.
  Json figures(const Totals& totals, const std::string& prefix) const;
  /// The loss or a single metric, by its name; NaN for a mean of nothing.
  double figure(const Totals& totals, const std::string& name) const;
  /// {"confusion": [[...], ...]}
  Json table_figures(std::span<const double> tables) const;

 private:
  /// Calls visit(name, sum, weight) for the loss and every single metric.
  template <typename Visit>
  void visit_figures(const Totals& totals, const Visit& visit) const;
  void write(const Metric& metric, const Measurement& measurement, Slot& rest) const;

  const std::vector<Metric> metrics_;  ///< of the phase
  const Phase phase_;
  size_t sums_ = 0;
  size_t maxima_ = 0;
  size_t tables_ = 0;
};

/// How to print single metrics: {"accuracy": "percent"}. Written to events, for the progress line.
Json shown_metrics(const std::vector<Metric>& metrics);

}  // namespace lockstep::objective
