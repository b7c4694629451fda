#include "fit/costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/model_error.h"
#include "base/units.h"

namespace lockstep::fit {
namespace {

// The value at `at` of the line through two points.
double on_line(double at, double x0, double y0, double x1, double y1) {
  return x0 == x1 ? y0 * at / std::max(x0, 1.0) : y0 + (y1 - y0) / (x1 - x0) * (at - x0);
}

}  // namespace

Costs::Costs(Meter& meter, int64_t room, std::function<void(const std::string&)> tell)
    : meter_(meter), room_(room), tell_(std::move(tell)) {}

LayerSize Costs::size_of(Range range) const {
  LayerSize sum;
  for (int64_t i = range.begin; i < range.end; ++i) {
    const LayerSize& layer = model().layers[static_cast<size_t>(i)];
    sum.state += layer.state;
    sum.trained += layer.trained;
  }
  return sum;
}

Costs::Key Costs::key_of(const Pass& pass) {
  return {pass.layers.begin, pass.layers.end, pass.recompute, pass.precision, pass.samples};
}

// A model that throws for so many samples does so in every way to compute them.
template <typename Measure>
auto Costs::unless_refused(const Pass& pass, const Measure& measure) {
  const Refusals::key_type samples = {pass.precision, pass.samples};
  if (const auto known = refusals_.find(samples); known != refusals_.end())
    throw ModelError(known->second);
  try {
    return measure();
  } catch (const ModelError& error) {
    refusals_.emplace(samples, error.what());
    throw;
  }
}

const MeasuredPass& Costs::measured(const Pass& pass) {
  const Key key = key_of(pass);
  if (const auto known = measured_.find(key); known != measured_.end()) return known->second;
  tell_(fmt::format(
      "measuring a pass of {}{}{}{}", plural(pass.samples, "sample"),
      pass.layers == all_layers()
          ? ""
          : fmt::format(" through layers {} to {}", pass.layers.begin, pass.layers.end - 1),
      pass.recompute ? ", with recomputation" : "",
      pass.precision == "fp32" ? "" : ", in " + pass.precision));
  const auto measure = [&] { return meter_.measure(pass, room_); };
  return measured_.emplace(key, unless_refused(pass, measure)).first->second;
}

KnownCost Costs::of(const Pass& pass) {
  // What a smaller pass needs too much for, a larger one does as well.
  Pass smaller = pass;
  smaller.samples = 0;
  for (auto it = measured_.lower_bound(key_of(smaller));
       it != measured_.end() && it->first <= key_of(pass); ++it)
    if (!it->second.cost) return extrapolated(pass, it->second.room);
  const MeasuredPass& came = measured(pass);
  return came.cost ? KnownCost{*came.cost} : extrapolated(pass, came.room);
}

// Along the line through the two largest passes that could be measured. It needs more than `room`.
KnownCost Costs::extrapolated(const Pass& pass, int64_t room) {
  std::vector<std::pair<int64_t, PassCost>> points;
  for (int64_t samples = pass.samples / 2; samples > 0 && points.size() < 2; samples /= 2) {
    Pass smaller = pass;
    smaller.samples = samples;
    try {
      if (const auto& cost = measured(smaller).cost) points.emplace_back(samples, *cost);
    } catch (const ModelError&) {  // too few samples for the model
    }
  }
  if (points.empty()) return {{.peak = room + 1, .held = room + 1}, false, false};
  const auto& larger = points.front();
  const auto& smaller = points.back();
  const auto value = [&](auto member) {
    return std::max(
        0.0, on_line(static_cast<double>(pass.samples), static_cast<double>(smaller.first),
                     static_cast<double>(smaller.second.*member), static_cast<double>(larger.first),
                     static_cast<double>(larger.second.*member)));
  };
  const auto bytes = [&](int64_t PassCost::* member) {
    return static_cast<int64_t>(std::llround(value(member)));
  };
  return {{.kept = bytes(&PassCost::kept),
           .peak = std::max(bytes(&PassCost::peak), room + 1),
           .held = bytes(&PassCost::held),
           .sent = bytes(&PassCost::sent),
           .drawn = larger.second.drawn,
           .forward = value(&PassCost::forward),
           .backward = value(&PassCost::backward)},
          false};
}

const std::vector<pipeline::LayerCost>& Costs::of_layers(const Pass& pass) {
  const Key key = key_of(pass);
  if (const auto known = of_layers_.find(key); known != of_layers_.end()) return known->second;
  tell_(fmt::format("measuring layers with {}", plural(pass.samples, "sample")));
  auto costs = unless_refused(pass, [&] { return meter_.layer_costs(pass); });
  return of_layers_.emplace(key, std::move(costs)).first->second;
}

bool Costs::times_are_rough() const {
  constexpr double kMuch = 0.15;
  double seconds = 0, waited = 0;
  for (const auto& [key, pass] : measured_) {
    if (!pass.cost) continue;
    seconds += pass.cost->forward + pass.cost->backward;
    waited += pass.cost->waited;
  }
  return waited > kMuch * seconds;
}

double Costs::update_seconds(int64_t bytes) {
  const auto known = update_seconds_.find(bytes);
  if (known != update_seconds_.end()) return known->second;
  return update_seconds_.emplace(bytes, meter_.update_seconds(bytes)).first->second;
}

}  // namespace lockstep::fit
