// What no network should be given, and some are: as LibTorch takes it, or refused.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "expect_error.h"
#include "lockstep/nn.h"
#include "nn/convolutions.h"

namespace lockstep::nn {
namespace {

using torch::Tensor;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

ConvBn layer_of(const torch::nn::Conv2d& conv) {
  return ConvBn(conv, torch::nn::BatchNorm2d(conv->options.out_channels()));
}

int64_t numbers_lost(const Tensor& y) {
  return torch::isnan(y).sum().item<int64_t>();
}

TEST(HardInputs, WhatIsNotANumberStaysSo) {
  torch::nn::Conv2d conv = convolution(16, 16);
  ConvBn layer = layer_of(conv);
  Tensor x = torch::randn({3, 16, 8, 8});
  x[0][3][2][2] = kNan;
  const Tensor y = layer(x);
  ASSERT_EQ(layer.served_by(), "winograd");
  EXPECT_EQ(numbers_lost(y), y.numel()) << "every channel's mean";
  ConvMaxPool pooled(convolution(16, 16));
  EXPECT_GT(numbers_lost(pooled(x)), 0);
  ASSERT_EQ(pooled.served_by(), "winograd");
  torch::NoGradGuard no_grad;
  conv->weight.fill_(kNan);
  EXPECT_TRUE(std::isnan(mean_pool(layer(torch::randn({3, 16, 8, 8}))).sum().item<float>()));
}

TEST(HardInputs, ABatchNormOfOtherChannelsIsRefused) {
  expect_bad_input([] { ConvBn(convolution(16, 16), torch::nn::BatchNorm2d(8)); },
                   {"16 channels", "BatchNorm 8"});
}

TEST(HardInputs, ASingleValueOfAChannelHasNoVarianceAndIsRefused) {
  torch::nn::Conv2d conv = convolution(16, 16);
  torch::nn::BatchNorm2d bn(16);
  ConvBn layer(conv, bn);
  const Tensor x = torch::randn({1, 16, 1, 1});
  expect_bad_input([&] { layer(x); }, {"BatchNorm", "no variance", "more samples"});
  EXPECT_TRUE(bn->running_var.equal(torch::ones({16})));
  EXPECT_EQ(bn->num_batches_tracked.item<int64_t>(), 0);
  layer(torch::randn({2, 16, 1, 1}));
  EXPECT_EQ(numbers_lost(bn->running_var), 0);
  bn->eval();
  EXPECT_EQ(numbers_lost(plain(layer(x))), 0);
}

TEST(HardInputs, AResidualOfAnotherShapeIsLeftToLibTorch) {
  ConvBn layer = layer_of(convolution(16, 16));
  const Tensor x = torch::randn({4, 16, 8, 8});
  EXPECT_EQ(layer(x, torch::randn({1, 16, 8, 8})).sizes(), x.sizes()) << "it broadcasts";
  EXPECT_EQ(layer.served_by(), "torch");
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{4, 8, 8, 8}, {4, 1, 8, 8, 8}, {4, 16, 4, 4}, {8, 16, 8, 4}})
    EXPECT_THROW(layer(x, torch::randn(sizes)), c10::Error) << c10::IntArrayRef(sizes);
}

TEST(HardInputs, EachBackwardPassUsesTheWeightsOfItsForwardPass) {
  for (const int64_t kernel : {1, 3}) {
    torch::manual_seed(1);
    const Tensor first = torch::randn({16, 16, kernel, kernel});
    const Tensor second = torch::randn({16, 16, kernel, kernel});
    Tensor gradients[2];
    for (const bool alone : {true, false}) {
      torch::nn::Conv2d conv = convolution(16, 16, kernel, 1, kernel / 2);
      ConvBn layer = layer_of(conv);
      torch::manual_seed(2);
      const Tensor x = torch::randn({3, 16, 8, 8}).requires_grad_();
      const Tensor direction = torch::randn({3, 16, 8, 8});
      conv->weight = first.clone().requires_grad_();
      const Tensor y = plain(layer(x));
      if (!alone) {
        conv->weight = second.clone().requires_grad_();
        plain(layer(torch::randn({3, 16, 8, 8}).requires_grad_())).square().sum().backward();
      }
      (y * direction).sum().backward();
      gradients[alone] = x.grad();
    }
    EXPECT_TRUE(torch::equal(gradients[0], gradients[1])) << "kernel " << kernel;
  }
}

TEST(HardInputs, AnImageSmallerThanTheKernelIsLeftToLibTorchWhichRefusesIt) {
  for (const int64_t side : {2, 1}) {
    ConvBn layer = layer_of(convolution(16, 16, 3, 2, 0));
    EXPECT_THROW(layer(torch::randn({2, 16, side, side})), c10::Error) << side;
  }
  ConvMaxPool pooled(convolution(16, 16, 3, 1, 0));
  EXPECT_THROW(pooled(torch::randn({2, 16, 3, 3})), c10::Error) << "one pixel cannot be pooled";
}

TEST(HardInputs, WeightsOfAnotherShapeThanTheOptionsSayAreLeftToLibTorchWhichRefusesThem) {
  torch::nn::Conv2d conv = convolution(16, 16);
  ConvMaxPool pooled(conv);
  conv->weight = torch::randn({16, 8, 3, 3});
  EXPECT_THROW(pooled(torch::randn({3, 16, 8, 8})), c10::Error);
}

TEST(HardInputs, GradientsOfGradientsAreRefused) {
  ConvBn layer = layer_of(convolution(16, 16));
  const Tensor x = torch::randn({3, 16, 8, 8}).requires_grad_();
  const Tensor loss = layer(x).square().sum();
  expect_bad_input([&] { torch::autograd::grad({loss}, {x}, {}, true, true); },
                   {"create_graph", "Kernels::torch"});
}

TEST(HardInputs, LabelsThatDoNotFitTheScoresAreRefused) {
  const Tensor scores = torch::randn({6, 10});
  for (const int64_t count : {0, 3, 9})
    EXPECT_THROW(cross_entropy(scores, torch::zeros({count}, torch::kInt64)), std::exception);
  EXPECT_THROW(cross_entropy(scores, torch::zeros({6}, torch::kInt64), 1.5), c10::Error);
}

TEST(HardInputs, CrossEntropyIsLibTorchsForIgnoredLabelsAndImpossibleClasses) {
  Tensor scores = torch::randn({6, 10});
  scores.select(1, 4).fill_(-std::numeric_limits<float>::infinity());
  const Tensor labels = torch::tensor({1, -100, 2, 3, -100, 0}, torch::kInt64);
  EXPECT_NEAR(cross_entropy(scores, labels).item<double>(),
              torch::cross_entropy_loss(scores, labels).item<double>(), 1e-6);
  const Tensor all = labels.clamp_min(0);
  EXPECT_NEAR(cross_entropy(scores, all).item<double>(),
              torch::cross_entropy_loss(scores, all).item<double>(), 1e-6);
}

}  // namespace
}  // namespace lockstep::nn
