// Regression: targets are numbers, of any shape. The loss of a sample is the mean over its numbers
// of the squared error or, with the option loss = "huber", of the Huber loss, which is linear
// beyond `delta`.
#include <fmt/ranges.h>
#include <torch/nn/functional/loss.h>
#include <torch/types.h>

#include "lockstep/error.h"
#include "objective/objectives.h"

namespace lockstep::objective {
namespace {

const Field& target_field(const Fields& fields) {
  if (fields.targets.size() != 1)
    throw BadInput("objective 'regression': needs data with one target, but this has {}",
                   fields.targets.size());
  return fields.targets[0];
}

class Regression final : public Objective {
 public:
  explicit Regression(const ObjectiveOptions& options)
      : target_(target_field(options.fields)),
        kind_(options.options.text("loss", "squared")),
        delta_(options.options.number("delta", 1)) {
    if (kind_ != "squared" && kind_ != "huber")
      throw BadInput("objective.options.loss = \"{}\": expected squared or huber", kind_);
    if (!(delta_ > 0)) throw BadInput("objective.options.delta = {}: expected more than 0", delta_);
  }

  std::vector<Field> outputs() const override { return {{target_.name, Type::f32, target_.shape}}; }

  Loss loss(const Tensors& outputs, const Batch& batch) override {
    const auto [predicted, wanted] = compared(outputs, batch);
    const auto samples = static_cast<double>(batch.samples);
    const torch::Tensor sum = kind_ == "huber"
                                  ? at::huber_loss(predicted, wanted, at::Reduction::Sum, delta_)
                                  : at::mse_loss(predicted, wanted, at::Reduction::Sum);
    return {sum / static_cast<double>(wanted.size(1)), samples};
  }

  std::vector<Metric> metrics() const override {
    constexpr auto kLower = Metric::Better::lower;
    return {{.name = "mean_squared_error", .better = kLower},
            {.name = "mean_absolute_error", .better = kLower},
            {.name = "largest_error",
             .combine = Metric::Combine::max,
             .when = Metric::When::evaluation,
             .better = kLower}};
  }

  std::vector<Measurement> measure(const Tensors& outputs, const Batch& batch,
                                   Phase phase) override {
    const auto [predicted, wanted] = compared(outputs, batch);
    const torch::Tensor errors = predicted - wanted;
    const auto count = static_cast<double>(errors.numel());
    std::vector<Measurement> all = {{errors.square().sum().item<double>(), count},
                                    {errors.abs().sum().item<double>(), count}};
    if (phase == Phase::evaluation) all.emplace_back(errors.abs().max().item<double>());
    return all;
  }

 private:
  // Both as [sample][number].
  std::pair<torch::Tensor, torch::Tensor> compared(const Tensors& outputs,
                                                   const Batch& batch) const {
    const torch::Tensor wanted =
        batch.targets.only().to(torch::kFloat32).reshape({batch.samples, -1});
    const torch::Tensor& predicted = outputs.only();
    if (predicted.numel() != wanted.numel() || predicted.size(0) != batch.samples)
      throw BadInput("the model returned shape {}: expected {} numbers for each of {} samples",
                     fmt::join(predicted.sizes(), " x "), wanted.size(1), batch.samples);
    return {predicted.reshape(wanted.sizes()), wanted};
  }

  const Field target_;
  const std::string kind_;
  const double delta_;
};

const bool regression_added = objectives().add(
    {"regression", "targets are numbers, of any shape; options: loss (squared or huber), delta",
     [](const ObjectiveOptions& options) -> std::unique_ptr<Objective> {
       return std::make_unique<Regression>(options);
     }});

}  // namespace
}  // namespace lockstep::objective
