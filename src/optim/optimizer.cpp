#include "optim/optimizer.h"

#include <cmath>
#include <utility>

#include "base/nearest.h"
#include "lockstep/error.h"

namespace lockstep::optim {
namespace {

int64_t length(const std::vector<Section>& sections) {
  return sections.empty() ? 0 : sections.back().end;
}

// What one section's update needs to know.
struct SgdStep {
  float rate;
  float decay;
  float momentum;
  bool nesterov;
  float trust = 1;
};

// PyTorch's SGD: v = momentum v + (g + decay w);  w -= rate (nesterov ? g + decay w + momentum v :
// v), where LARS takes `trust` times the gradient. Rounded exactly where PyTorch's kernels round:
// the same gradients give the same bits.
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

struct AdamWStep {
  float rate;  // with the first average's bias undone
  float root;  // undoes the second average's bias
  float keep;  // what weight decay leaves
  float beta1;
  float beta2;
  float epsilon;
};

// Adam with weight decay apart from the gradient (Loshchilov and Hutter).
[[gnu::always_inline]] inline void adamw_loop(const AdamWStep& step, int64_t count, const float* g,
                                              float* w, float* m, float* s) {
  for (int64_t i = 0; i < count; ++i) {
    m[i] = std::fma(g[i], 1 - step.beta1, m[i] * step.beta1);
    s[i] = std::fma(g[i] * g[i], 1 - step.beta2, s[i] * step.beta2);
    const float scale = step.rate / (std::sqrt(s[i]) * step.root + step.epsilon);
    w[i] = std::fma(m[i], -scale, w[i] * step.keep);
  }
}

// The same loops with and without wide registers: std::fma rounds alike in both.
[[gnu::target("avx2,fma")]] void sgd_wide(const SgdStep& step, int64_t count, const float* g,
                                          float* w, float* v) {
  sgd_loop(step, count, g, w, v);
}
[[gnu::target("avx2,fma")]] void adamw_wide(const AdamWStep& step, int64_t count, const float* g,
                                            float* w, float* m, float* s) {
  adamw_loop(step, count, g, w, m, s);
}

// The square root of the sum of squares, in one fixed order.
double norm(std::span<const float> values) {
  constexpr size_t kStrands = 8;
  double sums[kStrands] = {};
  size_t i = 0;
  for (; i + kStrands <= values.size(); i += kStrands)
    for (size_t strand = 0; strand < kStrands; ++strand) {
      const double value = values[i + strand];
      sums[strand] += value * value;
    }
  for (; i < values.size(); ++i) sums[0] += static_cast<double>(values[i]) * values[i];
  double sum = 0;
  for (const double strand : sums) sum += strand;
  return std::sqrt(sum);
}

bool has_wide_registers() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

class Sgd final : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, std::vector<Section> sections)
      : options_(options), sections_(std::move(sections)), velocity_(length(sections_)) {}

  void step(std::span<float> values, std::span<const float> gradients, double lr,
            int64_t /*update*/) override {
    for (const Section& section : sections_) {
      const int64_t begin = section.begin;
      const SgdStep step = {static_cast<float>(lr),
                            static_cast<float>(section.decays ? options_.weight_decay : 0.0),
                            static_cast<float>(options_.momentum), options_.nesterov,
                            trust_in(section, values, gradients)};
      (wide_ ? sgd_wide : sgd_loop)(step, section.end - begin, gradients.data() + begin,
                                    values.data() + begin, velocity_.data() + begin);
    }
  }

  std::vector<State> state() override { return {{"momentum", velocity_}}; }

 private:
  // LARS (You, Gitman and Ginsburg 2017): a layer moves in proportion to its weights, however large
  // its gradient is. Layers without decay (biases, BatchNorm) move as in SGD.
  float trust_in(const Section& section, std::span<const float> values,
                 std::span<const float> gradients) const {
    if (options_.name != "lars" || !section.decays) return 1;
    const auto begin = static_cast<size_t>(section.begin);
    const auto count = static_cast<size_t>(section.end) - begin;
    const double of_values = norm(values.subspan(begin, count));
    const double of_gradient = norm(gradients.subspan(begin, count));
    if (of_values == 0 || of_gradient == 0) return 1;
    return static_cast<float>(options_.trust * of_values /
                              (of_gradient + options_.weight_decay * of_values));
  }

  OptimizerOptions options_;
  std::vector<Section> sections_;
  std::vector<float> velocity_;
  bool wide_ = has_wide_registers();
};

class AdamW final : public Optimizer {
 public:
  AdamW(const OptimizerOptions& options, std::vector<Section> sections)
      : options_(options),
        sections_(std::move(sections)),
        mean_(length(sections_)),
        square_(length(sections_)) {}

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
  OptimizerOptions options_;
  std::vector<Section> sections_;
  std::vector<float> mean_;
  std::vector<float> square_;
  bool wide_ = has_wide_registers();
};

}  // namespace

std::vector<std::string> optimizer_names() {
  return {"sgd", "adamw", "lars"};
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::vector<Section> sections) {
  if (options.name == "sgd" || options.name == "lars")
    return std::make_unique<Sgd>(options, std::move(sections));
  if (options.name == "adamw") return std::make_unique<AdamW>(options, std::move(sections));
  throw BadInput("optimizer.name '{}': no such optimizer{}; there are: {}", options.name,
                 did_you_mean(options.name, optimizer_names()), fmt::join(optimizer_names(), ", "));
}

}  // namespace lockstep::optim
