// The update that sgd and lars share, with decay w and gradient g:
//
//     d = trust (g + decay w)
//     v = momentum v + d
//     w = w - rate (nesterov ? d + momentum v : v)
//
// It rounds exactly where PyTorch's kernels round: the same gradients give the same bits.
#include "optim/sgd_update.h"

#include <cmath>
#include <utility>

namespace lockstep::optim {
namespace {

// The constants of one section's update.
struct SgdStep {
  float rate;
  float decay;
  float momentum;
  bool nesterov;
  float trust;
};

[[gnu::always_inline]] inline void sgd_loop(const SgdStep& step, int64_t count, const float* g,
                                            float* w, float* v) {
  const float of_velocity = step.nesterov ? step.momentum : 1.0F;
  const float of_gradient = step.nesterov ? 1.0F : 0.0F;
  for (int64_t i = 0; i < count; ++i) {
    const float d = std::fma(w[i], step.decay, g[i]) * step.trust;
    v[i] = v[i] * step.momentum + d;
    w[i] = std::fma(std::fma(v[i], of_velocity, of_gradient * d), -step.rate, w[i]);
  }
}

// std::fma makes both loops round alike.
FOR_WIDE_REGISTERS void sgd_wide(const SgdStep& step, int64_t count, const float* g, float* w,
                                 float* v) {
  sgd_loop(step, count, g, w, v);
}

}  // namespace

SgdUpdate::SgdUpdate(const OptimizerOptions& options, std::vector<Section> sections)
    : options_(options),
      sections_(std::move(sections)),
      velocity_(static_cast<size_t>(length(sections_))) {}

void SgdUpdate::step(std::span<float> values, std::span<const float> gradients, double lr,
                     int64_t /*update*/) {
  for (const Section& section : sections_) {
    const auto begin = static_cast<size_t>(section.begin);
    const auto count = static_cast<size_t>(section.end) - begin;
    const SgdStep step = {
        static_cast<float>(lr), static_cast<float>(section.decays ? options_.weight_decay : 0.0),
        static_cast<float>(options_.momentum), options_.nesterov,
        trust(section, values.subspan(begin, count), gradients.subspan(begin, count))};
    (wide_ ? sgd_wide : sgd_loop)(step, static_cast<int64_t>(count), gradients.data() + begin,
                                  values.data() + begin, velocity_.data() + begin);
  }
}

}  // namespace lockstep::optim
