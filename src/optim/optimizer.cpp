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

// PyTorch's SGD: v = momentum v + (g + decay w);  w -= lr (nesterov ? g + decay w + momentum v :
// v).
class Sgd final : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, std::vector<Section> sections)
      : options_(options), sections_(std::move(sections)), velocity_(length(sections_)) {}

  void step(std::span<float> values, std::span<const float> gradients, double lr,
            int64_t /*update*/) override {
    for (const Section& section : sections_) update_section(section, values, gradients, lr);
  }

  std::vector<State> state() override { return {{"momentum", velocity_}}; }

 private:
  void update_section(const Section& section, std::span<float> values,
                      std::span<const float> gradients, double lr) {
    const auto rate = static_cast<float>(lr);
    const auto momentum = static_cast<float>(options_.momentum);
    const auto decay = static_cast<float>(section.decays ? options_.weight_decay : 0.0);
    const float of_gradient = options_.nesterov ? 1.0F : 0.0F;
    const float of_velocity = options_.nesterov ? momentum : 1.0F;
    float* w = values.data();
    float* v = velocity_.data();
    const float* g = gradients.data();
    for (int64_t i = section.begin; i < section.end; ++i) {
      const float d = g[i] + decay * w[i];
      v[i] = momentum * v[i] + d;
      w[i] -= rate * (of_gradient * d + of_velocity * v[i]);
    }
  }

  OptimizerOptions options_;
  std::vector<Section> sections_;
  std::vector<float> velocity_;
};

// Adam with weight decay apart from the gradient (Loshchilov and Hutter).
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
    const Corrections corrections = {
        static_cast<float>(lr / (1 - std::pow(options_.beta1, t))),
        static_cast<float>(1 / std::sqrt(1 - std::pow(options_.beta2, t)))};
    for (const Section& section : sections_)
      update_section(section, values, gradients, lr, corrections);
  }

  std::vector<State> state() override { return {{"mean", mean_}, {"square", square_}}; }

 private:
  // Both running averages start at zero: these undo that bias.
  struct Corrections {
    float rate;
    float root;
  };

  void update_section(const Section& section, std::span<float> values,
                      std::span<const float> gradients, double lr, Corrections corrections) {
    const auto beta1 = static_cast<float>(options_.beta1);
    const auto beta2 = static_cast<float>(options_.beta2);
    const auto epsilon = static_cast<float>(options_.epsilon);
    const auto keep = static_cast<float>(1 - (section.decays ? lr * options_.weight_decay : 0.0));
    float* w = values.data();
    float* m = mean_.data();
    float* s = square_.data();
    const float* g = gradients.data();
    for (int64_t i = section.begin; i < section.end; ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * g[i];
      s[i] = beta2 * s[i] + (1 - beta2) * g[i] * g[i];
      w[i] = keep * w[i] - corrections.rate * m[i] / (std::sqrt(s[i]) * corrections.root + epsilon);
    }
  }

  OptimizerOptions options_;
  std::vector<Section> sections_;
  std::vector<float> mean_;
  std::vector<float> square_;
};

}  // namespace

std::vector<std::string> optimizer_names() {
  return {"sgd", "adamw"};
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::vector<Section> sections) {
  if (options.name == "sgd") return std::make_unique<Sgd>(options, std::move(sections));
  if (options.name == "adamw") return std::make_unique<AdamW>(options, std::move(sections));
  throw BadInput("optimizer.name '{}': no such optimizer{}; there are: {}", options.name,
                 did_you_mean(options.name, optimizer_names()), fmt::join(optimizer_names(), ", "));
}

}  // namespace lockstep::optim
