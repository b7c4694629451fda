// Each worker computes the count, the mean and the sum of squared deviations of its own batch. All
// workers gather those of all and combine them in the order of ranks (Chan et al.), so that all
// normalise by the same numbers. The backward pass needs two sums over all values.
#include "lockstep/sync_batch_norm.h"

#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>
#include <torch/nn/functional/batchnorm.h>
#include <torch/nn/init.h>

#include "collective/communicator.h"
#include "lockstep/error.h"

namespace lockstep::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct GlobalStatistics {
  double count;
  Tensor mean;      ///< of doubles, by channel
  Tensor variance;  ///< biased
};

std::vector<int64_t> all_but_channels(const Tensor& input) {
  std::vector<int64_t> dimensions = {0};
  for (int64_t i = 2; i < input.dim(); ++i) dimensions.push_back(i);
  return dimensions;
}

// A vector by channel, in a shape that broadcasts over the input.
Tensor spread(const Tensor& values, const Tensor& input) {
  std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
  shape[1] = values.numel();
  return values.to(input.scalar_type()).view(shape);
}

GlobalStatistics measure(const Tensor& input, World& world) {
  const int64_t channels = input.size(1);
  const auto dimensions = all_but_channels(input);
  const double count = static_cast<double>(input.numel()) / static_cast<double>(channels);
  const Tensor mean = input.mean(dimensions, false, torch::kDouble);
  const Tensor squares =
      (input - spread(mean, input)).square_().sum(dimensions, false, torch::kDouble);
  const int64_t row = 1 + 2 * channels;
  Tensor all = torch::zeros({world.size(), row}, torch::kDouble);
  all[world.rank()] =
      torch::cat({torch::full({1}, count, torch::kDouble), mean.cpu(), squares.cpu()});
  world.communicator().all_gather(
      {reinterpret_cast<std::byte*>(all.data_ptr()), all.numel(), Type::f64});

  GlobalStatistics total{0, torch::zeros({channels}, torch::kDouble),
                         torch::zeros({channels}, torch::kDouble)};
  for (int64_t rank = 0; rank < world.size(); ++rank) {
    const auto theirs = all[rank][0].item<double>();
    if (theirs == 0) continue;
    const Tensor difference = all[rank].slice(0, 1, 1 + channels) - total.mean;
    const double sum = total.count + theirs;
    total.mean += difference * (theirs / sum);
    total.variance +=
        all[rank].slice(0, 1 + channels) + difference.square() * (total.count * theirs / sum);
    total.count = sum;
  }
  if (total.count > 0) total.variance /= total.count;
  return {total.count, total.mean.to(input.device()), total.variance.to(input.device())};
}

struct WorldHolder : torch::CustomClassHolder {
  explicit WorldHolder(World held) : world(std::move(held)) {}
  World world;
};

class Normalise : public torch::autograd::Function<Normalise> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                        const Tensor& bias, const Tensor& mean, const Tensor& deviation,
                        double count, const World& world) {
    const Tensor normal = (input - spread(mean, input)) / spread(deviation, input);
    context->save_for_backward({normal, weight, deviation});
    context->saved_data["count"] = count;
    context->saved_data["world"] =
        c10::IValue::make_capsule(c10::make_intrusive<WorldHolder>(world));
    if (!weight.defined()) return normal.clone();
    return normal * spread(weight, input) + spread(bias, input);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor& normal = saved[0];
    const Tensor& weight = saved[1];
    const Tensor& gradient = gradients[0];
    auto holder =
        c10::static_intrusive_pointer_cast<WorldHolder>(context->saved_data["world"].toCapsule());
    const double count = context->saved_data["count"].toDouble();

    const auto dimensions = all_but_channels(gradient);
    const Tensor sum = gradient.sum(dimensions, false, torch::kDouble);
    const Tensor product = (gradient * normal).sum(dimensions, false, torch::kDouble);
    Tensor totals = torch::stack({sum, product});
    holder->world.all_reduce(totals, Operation::sum);
    if (count > 0) totals /= count;
    Tensor input_gradient =
        (gradient - spread(totals[0], gradient) - normal * spread(totals[1], gradient)) /
        spread(saved[2], gradient);
    if (!weight.defined()) return {input_gradient, {}, {}, {}, {}, {}, {}};
    input_gradient *= spread(weight, gradient);
    return {input_gradient,
            product.to(weight.scalar_type()),
            sum.to(weight.scalar_type()),
            {},
            {},
            {},
            {}};
  }
};

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, World world)
    : options_(options), world_(std::move(world)) {
  reset();
}

void SyncBatchNormImpl::reset() {
  const int64_t features = options_.num_features();
  weight = register_parameter("weight", options_.affine() ? torch::ones({features}) : Tensor(),
                              options_.affine());
  bias = register_parameter("bias", options_.affine() ? torch::zeros({features}) : Tensor(),
                            options_.affine());
  const bool tracks = options_.track_running_stats();
  running_mean = register_buffer("running_mean", tracks ? torch::zeros({features}) : Tensor());
  running_var = register_buffer("running_var", tracks ? torch::ones({features}) : Tensor());
  num_batches_tracked =
      register_buffer("num_batches_tracked", tracks ? torch::tensor(0, torch::kLong) : Tensor());
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "lockstep::nn::SyncBatchNorm(" << options_.num_features() << ", eps=" << options_.eps()
         << ")";
}

Tensor SyncBatchNormImpl::forward(const Tensor& input) {
  if (input.dim() < 2 || input.size(1) != options_.num_features())
    throw BadInput("SyncBatchNorm of {} features: input has shape {}", options_.num_features(),
                   fmt::join(input.sizes(), "x"));
  if (!is_training() && running_mean.defined())
    return torch::batch_norm(input, weight, bias, running_mean, running_var, false, 0,
                             options_.eps(), false);
  GlobalStatistics statistics;
  {
    torch::NoGradGuard no_grad;
    statistics = measure(input, world_);
    if (is_training() && running_mean.defined() && statistics.count > 0) {
      num_batches_tracked += 1;
      const double share =
          options_.momentum() ? *options_.momentum() : 1.0 / num_batches_tracked.item<double>();
      const Tensor unbiased =
          statistics.variance * (statistics.count / std::max(1.0, statistics.count - 1));
      running_mean.lerp_(statistics.mean.to(running_mean.scalar_type()), share);
      running_var.lerp_(unbiased.to(running_var.scalar_type()), share);
    }
  }
  return Normalise::apply(input, weight, bias, statistics.mean,
                          (statistics.variance + options_.eps()).sqrt(), statistics.count, world_);
}

}  // namespace lockstep::nn
