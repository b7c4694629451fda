#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "fit/meter.h"

namespace lockstep::fit {

/// A pass's cost, and where it is from.
struct KnownCost {
  PassCost cost;
  bool measured = true;  ///< or computed from smaller passes, since it does not fit
  bool known = true;     ///< else not even a pass of one sample could be measured
};

/// What passes cost: each is measured once. One that needs more than `room` bytes is computed from
/// two smaller ones, along a line.
class Costs {
 public:
  /// `tell` is called before each measurement with what is measured.
  Costs(Meter& meter, int64_t room, std::function<void(const std::string&)> tell);

  KnownCost of(const Pass& pass);
  /// As Meter::layer_costs.
  const std::vector<pipeline::LayerCost>& of_layers(const Pass& pass);

  const std::vector<LayerSize>& layers() const { return meter_.layers(); }
  Range all_layers() const { return {0, static_cast<int64_t>(layers().size())}; }
  /// The sum over a range of layers.
  LayerSize size_of(Range range) const;
  const Meter& meter() const { return meter_; }
  double update_seconds(int64_t bytes);

 private:
  using Key = std::tuple<int64_t, int64_t, bool, std::string, int64_t>;
  static Key key_of(const Pass& pass);

  std::optional<PassCost> measured(const Pass& pass);
  KnownCost extrapolated(const Pass& pass);

  Meter& meter_;
  const int64_t room_;
  const std::function<void(const std::string&)> tell_;
  std::map<Key, std::optional<PassCost>> measured_;  ///< nothing: more than `room_`
  std::map<Key, std::vector<pipeline::LayerCost>> of_layers_;
  std::map<int64_t, double> update_seconds_;
};

}  // namespace lockstep::fit
