// AdamW: Adam with decoupled weight decay (Loshchilov and Hutter). The averages of the gradient and
// of its square start at zero; each update corrects this bias.
#include <cmath>
#include <utility>

#include "base/processor.h"
#include "optim/optimizer.h"

namespace lockstep::optim {
namespace {

struct AdamWStep {
  float rate;  // corrected for the bias of the first average
  float root;  // corrects the bias of the second average
  float keep;  // 1 - lr * weight decay
  float beta1;
  float beta2;
  float epsilon;
};

[[gnu::always_inline]] inline void adamw_loop(const AdamWStep& step, int64_t count, const float* g,
                                              float* w, float* m, float* s) {
  for (int64_t i = 0; i < count; ++i) {
    m[i] = std::fma(g[i], 1 - step.beta1, m[i] * step.beta1);
    s[i] = std::fma(g[i] * g[i], 1 - step.beta2, s[i] * step.beta2);
    const float scale = step.rate / (std::sqrt(s[i]) * step.root + step.epsilon);
    w[i] = std::fma(m[i], -scale, w[i] * step.keep);
  }
}

// std::fma makes both loops round alike.
FOR_WIDE_REGISTERS void adamw_wide(const AdamWStep& step, int64_t count, const float* g, float* w,
                                   float* m, float* s) {
  adamw_loop(step, count, g, w, m, s);
}

class AdamW final : public Optimizer {
 public:
  AdamW(const OptimizerOptions& options, std::vector<Section> sections)
      : options_(options),
        sections_(std::move(sections)),
        mean_(static_cast<size_t>(length(sections_))),
        square_(static_cast<size_t>(length(sections_))) {}

  void step(std::span<float> values, std::span<const float> gradients, double lr,
            int64_t update) override {
    const auto t = static_cast<double>(update);
    AdamWStep step = {.rate = static_cast<float>(lr / (1 - std::pow(options_.beta1, t))),
                      .root = static_cast<float>(1 / std::sqrt(1 - std::pow(options_.beta2, t))),
                      .beta1 = static_cast<float>(options_.beta1),
                      .beta2 = static_cast<float>(options_.beta2),
                      .epsilon = static_cast<float>(options_.epsilon)};
    for (const Section& section : sections_) {
      step.keep = static_cast<float>(1 - (section.decays ? lr * options_.weight_decay : 0.0));
      const int64_t begin = section.begin;
      (wide_ ? adamw_wide : adamw_loop)(step, section.end - begin, gradients.data() + begin,
                                        values.data() + begin, mean_.data() + begin,
                                        square_.data() + begin);
    }
  }

  std::vector<State> state() override { return {{"mean", mean_}, {"square", square_}}; }

 private:
  const OptimizerOptions options_;
  const std::vector<Section> sections_;
  const bool wide_ = has_wide_registers();
  std::vector<float> mean_;
  std::vector<float> square_;
};

[[maybe_unused]] const bool adamw_added =
    optimizers().add({.name = "adamw",
                      .about = "Adam with decoupled weight decay",
                      .uses = {"weight_decay", "decay_bias_and_norm", "beta1", "beta2", "epsilon"},
                      .state_per_parameter = 2,
                      .elementwise = true,
                      .make = [](const OptimizerOptions& options,
                                 std::vector<Section> sections) -> std::unique_ptr<Optimizer> {
                        return std::make_unique<AdamW>(options, std::move(sections));
                      }});

}  // namespace
}  // namespace lockstep::optim
