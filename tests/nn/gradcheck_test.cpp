// Gradients of our layers, which know floats only, against differences of LibTorch's in doubles.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/nn.h"

namespace lockstep::nn {
namespace {

using torch::Tensor;

constexpr int64_t kChannels = 16;

/// x, the weight, gamma and beta of conv - bn, by which a function is differentiated.
using Arguments = std::vector<Tensor>;

Arguments random_arguments() {
  torch::manual_seed(5);
  return {torch::randn({3, kChannels, 8, 7}), torch::randn({kChannels, kChannels, 3, 3}),
          torch::rand({kChannels}) + 0.5, torch::randn({kChannels})};
}

/// A smooth function of the layer's result: no ReLU, which has no derivative at zero.
Tensor weighed(const Tensor& y) {
  torch::manual_seed(6);
  return (y * torch::randn(y.sizes()).to(y.scalar_type())).sum();
}

Tensor in_doubles(const Arguments& arguments) {
  const Tensor z = torch::conv2d(arguments[0], arguments[1], {}, 1, 1);
  return weighed(torch::batch_norm(z, arguments[2], arguments[3], {}, {}, true, 0.1, 1e-5, false));
}

/// Of one number of one argument, from both sides.
double slope(const Arguments& arguments, size_t argument, int64_t index) {
  constexpr double kStep = 1e-6;
  double values[2];
  for (const int side : {0, 1}) {
    Arguments moved;
    for (const Tensor& tensor : arguments) moved.push_back(tensor.to(torch::kFloat64).clone());
    moved[argument].view(-1)[index] += side == 0 ? -kStep : kStep;
    values[side] = in_doubles(moved).item<double>();
  }
  return (values[1] - values[0]) / (2 * kStep);
}

TEST(GradCheck, ConvBnHasTheSlopesThatDifferencesOfDoublesGive) {
  const Arguments arguments = random_arguments();
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(kChannels, kChannels, 3).padding(1).bias(false));
  torch::nn::BatchNorm2d bn(kChannels);
  {
    torch::NoGradGuard no_grad;
    conv->weight.copy_(arguments[1]);
    bn->weight.copy_(arguments[2]);
    bn->bias.copy_(arguments[3]);
  }
  ConvBn layer(conv, bn, Activation::none, Kernels::fused);
  const Tensor x = arguments[0].clone().requires_grad_();
  weighed(plain(layer(x))).backward();
  ASSERT_EQ(layer.served_by(), "winograd");
  const Arguments gradients = {x.grad(), conv->weight.grad(), bn->weight.grad(), bn->bias.grad()};
  for (size_t argument = 0; argument < gradients.size(); ++argument) {
    const Tensor flat = gradients[argument].reshape(-1);
    const double largest = flat.abs().max().item<double>();
    for (int64_t index = 0; index < flat.numel(); index += 1 + flat.numel() / 40)
      EXPECT_NEAR(flat[index].item<double>(), slope(arguments, argument, index), 1e-4 * largest)
          << "argument " << argument << ", number " << index;
  }
}

}  // namespace
}  // namespace lockstep::nn
