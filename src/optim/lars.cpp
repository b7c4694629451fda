// LARS (You, Gitman and Ginsburg 2017), for large batches: a layer's update is proportional to the
// norm of its weights, whatever the norm of its gradient. Sections without decay (biases,
// BatchNorm) are updated as in SGD.
#include <cmath>
#include <utility>

#include "optim/sgd_update.h"

namespace lockstep::optim {
namespace {

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

class Lars final : public SgdUpdate {
 public:
  using SgdUpdate::SgdUpdate;

 private:
  float trust(const Section& section, std::span<const float> values,
              std::span<const float> gradients) const override {
    if (!section.decays) return 1;
    const double of_values = norm(values);
    const double of_gradient = norm(gradients);
    if (of_values == 0 || of_gradient == 0) return 1;
    return static_cast<float>(options().trust * of_values /
                              (of_gradient + options().weight_decay * of_values));
  }
};

[[maybe_unused]] const bool lars_added = optimizers().add(
    {.name = "lars",
     .about = "SGD with layer-wise learning rates, for large batches",
     .uses = {"weight_decay", "decay_bias_and_norm", "momentum", "nesterov", "trust"},
     .state_per_parameter = 1,
     .elementwise = false,  // a section's trust depends on all of it
     .make = [](const OptimizerOptions& options,
                std::vector<Section> sections) -> std::unique_ptr<Optimizer> {
       return std::make_unique<Lars>(options, std::move(sections));
     }});

}  // namespace
}  // namespace lockstep::optim
