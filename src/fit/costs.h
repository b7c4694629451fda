#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fit/meter.h"

namespace lockstep::fit {

/// A pass's cost, and where it is from.
struct KnownCost {
  PassCost cost;
  bool measured = true;  ///< or computed from smaller passes, since it needs too much
  bool known = true;     ///< else no smaller pass could be measured either
};

/// What passes cost: each is measured once. One that needs more than `room` bytes is computed from
/// two smaller ones, along a line. Passes that the model itself cannot compute have no cost: it
/// throws for one sample, or in a precision.
class Costs {
 public:
  /// `tell` is called before each measurement with what is measured.
  Costs(Meter& meter, int64_t room, std::function<void(const std::string&)> tell);

  /// Throws ModelError for a pass that the model cannot compute.
  KnownCost of(const Pass& pass);
  /// As Meter::layer_costs.
  const std::vector<pipeline::LayerCost>& of_layers(const Pass& pass);

  const ModelFacts& model() const { return meter_.model(); }
  Range all_layers() const { return {0, static_cast<int64_t>(model().layers.size())}; }
  /// The sum over a range of layers.
  LayerSize size_of(Range range) const;
  double update_seconds(int64_t bytes);

  /// By precision and samples: what the model threw for them so far.
  using Refusals = std::map<std::pair<std::string, int64_t>, std::string>;
  const Refusals& refusals() const { return refusals_; }

  /// Whether other programs had the processors for much of the time in which passes were measured.
  bool times_are_rough() const;

 private:
  using Key = std::tuple<int64_t, int64_t, bool, std::string, int64_t>;
  static Key key_of(const Pass& pass);

  template <typename Measure>
  auto unless_refused(const Pass& pass, const Measure& measure);
  const MeasuredPass& measured(const Pass& pass);
  KnownCost extrapolated(const Pass& pass, int64_t room);

  Meter& meter_;
  const int64_t room_;
  const std::function<void(const std::string&)> tell_;
  std::map<Key, MeasuredPass> measured_;
  std::map<Key, std::vector<pipeline::LayerCost>> of_layers_;
  std::map<int64_t, double> update_seconds_;
  Refusals refusals_;
};

}  // namespace lockstep::fit
