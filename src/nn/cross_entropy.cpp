#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "lockstep/error.h"
#include "lockstep/nn.h"
#include "nn/layer.h"

namespace lockstep::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One sample's scores become the gradient of its loss, which is returned. The target is 1 -
// smoothing for the label plus smoothing spread evenly over all classes.
double loss_and_gradient(std::span<const float> scores, int64_t label, double smoothing,
                         std::span<float> gradient) {
  const float most = *std::max_element(scores.begin(), scores.end());
  double sum = 0, sum_of_scores = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    gradient[i] = std::exp(scores[i] - most);
    sum += gradient[i];
    sum_of_scores += scores[i] - most;
  }
  const double log_sum = std::log(sum);
  const double even = smoothing / static_cast<double>(scores.size());
  const auto one_by_sum = static_cast<float>(1 / sum);
  for (float& g : gradient) g = g * one_by_sum - static_cast<float>(even);
  gradient[static_cast<size_t>(label)] -= static_cast<float>(1 - smoothing);
  return (1 - smoothing) * (log_sum - (scores[static_cast<size_t>(label)] - most)) +
         (even == 0 ? 0 : even * (static_cast<double>(scores.size()) * log_sum - sum_of_scores));
}

// Samples with this label are ignored, as in LibTorch.
bool ignores_any(const Tensor& labels) {
  constexpr int64_t kIgnored = -100;
  const Tensor whole = labels.contiguous();
  const std::span all(whole.data_ptr<int64_t>(), static_cast<size_t>(whole.numel()));
  return std::find(all.begin(), all.end(), kIgnored) != all.end();
}

class CrossEntropyFunction : public torch::autograd::Function<CrossEntropyFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& scores, const Tensor& labels,
                        double smoothing, double divide_by) {
    const int64_t samples = scores.size(0), classes = scores.size(1);
    const Tensor gradient = at::empty(scores.sizes(), scores.options());
    double total = 0;
    for (int64_t i = 0; i < samples; ++i) {
      const int64_t label = labels.data_ptr<int64_t>()[i];
      if (label < 0 || label >= classes)
        throw BadInput("cross_entropy: label {} of sample {}; there are {} classes", label, i,
                       classes);
      const auto length = static_cast<size_t>(classes);
      total += loss_and_gradient({scores.data_ptr<float>() + i * classes, length}, label, smoothing,
                                 {gradient.data_ptr<float>() + i * classes, length});
    }
    context->save_for_backward({gradient});
    context->saved_data["divide_by"] = divide_by;
    return torch::scalar_tensor(total / divide_by, scores.options());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require_no_second_derivative();
    const Tensor gradient = context->get_saved_variables()[0];
    const double divide_by = context->saved_data["divide_by"].toDouble();
    return {gradient * (gradients[0] / divide_by), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

torch::Tensor cross_entropy(const torch::Tensor& scores, const torch::Tensor& labels,
                            double label_smoothing, Kernels kernels, Reduce reduce) {
  const bool ours = kernels == Kernels::fused && is_plain_float(scores) && scores.dim() == 2 &&
                    scores.numel() > 0 && labels.device().is_cpu() && labels.dim() == 1 &&
                    labels.scalar_type() == torch::kInt64 && labels.size(0) == scores.size(0) &&
                    label_smoothing >= 0 && label_smoothing <= 1 && !ignores_any(labels);
  if (!ours)
    return at::cross_entropy_loss(scores, labels, {},
                                  reduce == Reduce::mean ? at::Reduction::Mean : at::Reduction::Sum,
                                  -100, label_smoothing);
  const double divide_by = reduce == Reduce::mean ? static_cast<double>(scores.size(0)) : 1.0;
  return CrossEntropyFunction::apply(scores.contiguous(), labels.contiguous(), label_smoothing,
                                     divide_by);
}

}  // namespace lockstep::nn
