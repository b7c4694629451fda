#include <gtest/gtest.h>
#include <torch/version.h>

#include <thread>

#include "devices.h"
#include "expect_error.h"
#include "lockstep/autocast.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using torch::Tensor;
namespace nn = torch::nn;

constexpr torch::ScalarType kHalves[] = {torch::kHalf, torch::kBFloat16};

Tensor numbers(at::IntArrayRef sizes, uint64_t seed = 1) {
  torch::manual_seed(seed);
  return torch::randn(sizes);
}

TEST(HalfPrecision, ProductsAreThoseOfFloat32RoundedOnce) {
  for (const torch::ScalarType type : kHalves) {
    const Tensor a = numbers({17, 33}).to(type), b = numbers({33, 9}, 2).to(type);
    const Tensor expected = a.to(torch::kFloat).mm(b.to(torch::kFloat)).to(type);
    const Tensor product = a.to(device(0)).mm(b.to(device(0)));
    EXPECT_EQ(product.scalar_type(), type);
    EXPECT_TRUE(product.cpu().equal(expected));
  }
}

TEST(HalfPrecision, OverflowsToInfinity) {
  const Tensor large = torch::full({2}, 60000.0, torch::kHalf).to(device(0));
  EXPECT_TRUE(torch::isinf(large + large).all().item<bool>());
  EXPECT_EQ((large * 1e-8).sum().item<float>(),
            2 * (torch::tensor(60000.0) * 1e-8).to(torch::kHalf).item<float>());
}

TEST(HalfPrecision, MeetsFloat32AsOnTheCpu) {
  const Tensor half = torch::ones({3}, torch::kHalf).to(device(0)),
               single = torch::ones({3}, device(0)), number = torch::tensor(2.0F).to(device(0));
  EXPECT_EQ((half + single).scalar_type(), torch::kFloat);
  EXPECT_EQ((half + number).scalar_type(), torch::kHalf);
  EXPECT_EQ((half + 2.5).scalar_type(), torch::kHalf);
  EXPECT_EQ((half > 0).scalar_type(), torch::kBool);
  EXPECT_EQ(half.sum(torch::kFloat).scalar_type(), torch::kFloat);
  EXPECT_EQ(single.sum(torch::kHalf).scalar_type(), torch::kHalf);
  EXPECT_EQ(half.argmax().scalar_type(), torch::kLong);
  EXPECT_EQ(torch::cat({half, half}).scalar_type(), torch::kHalf);
}

TEST(HalfPrecision, IsWrittenInPlaceAndIntoViews) {
  Tensor x = torch::zeros({4}, torch::TensorOptions(device(0)).dtype(torch::kHalf));
  x.add_(1).mul_(3);
  x.slice(0, 2, 4).sub_(0.5);
  Tensor out = torch::empty({4}, x.options());
  torch::add_out(out, x, x);
  EXPECT_TRUE(out.cpu().to(torch::kFloat).equal(torch::tensor({6.0F, 6.0F, 5.0F, 5.0F})));
}

TEST(HalfPrecision, OfNormalizationsKeepsStatisticsInFloat32) {
  nn::BatchNorm2d norm(3);
  norm->to(device(0));
  const Tensor x = numbers({4, 3, 5, 5}).to(device(0)).to(torch::kHalf);
  const Tensor y = norm(x);
  EXPECT_EQ(y.scalar_type(), torch::kHalf);
  EXPECT_EQ(norm->running_mean.scalar_type(), torch::kFloat);
  y.to(torch::kFloat).pow(2).sum().backward();
  EXPECT_EQ(norm->weight.grad().scalar_type(), torch::kFloat);
}

TEST(HalfPrecision, OfSingleNumbersStaysThat) {
  const Tensor z = torch::ones({}, torch::kBFloat16).to(device(0));
  EXPECT_EQ((z * 2.0).scalar_type(), torch::kBFloat16);
  EXPECT_EQ((z + 1.5).scalar_type(), torch::kBFloat16);
}

TEST(HalfPrecision, KeepsToTheLimitsOfItsType) {
  const auto options = torch::TensorOptions(device(0)).dtype(torch::kHalf);
  const Tensor infinite = torch::full({2}, INFINITY, options);
  EXPECT_EQ(infinite.nan_to_num().cpu()[0].item<float>(), 65504);
  EXPECT_LT(torch::rand({100'000}, options).max().item<float>(), 1);
  EXPECT_LE(torch::empty({1000}, options).random_().max().item<float>(), 2048);
}

// LibTorch 2 makes calls of their own of tensors with different shapes, which is right.
TEST(HalfPrecision, RefusesToWriteTheSameMemoryTwiceInOneCall) {
  const Tensor x = torch::ones({6}, torch::kBFloat16).to(device(0));
  const auto add_twice = [&] { at::_foreach_add_(std::vector<Tensor>{x, x.view({2, 3})}, 1); };
  if (TORCH_VERSION_MAJOR < 2) {
    expect_bad_input(add_twice, {"_foreach_add_", "share memory"});
    return;
  }
  add_twice();
  EXPECT_TRUE(x.cpu().equal(torch::full({6}, 3, torch::kBFloat16)));
}

// A step of a model that is in half precision as a whole.
TEST(HalfPrecision, TrainsANetLikeFloat32) {
  const auto loss_after = [](torch::ScalarType type) {
    torch::manual_seed(1);
    nn::Sequential net(nn::Conv2d(2, 4, 3), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
                       nn::Linear(16, 3));
    net->to(device(1), type);
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    const Tensor x = numbers({8, 2, 6, 6}).to(device(1)).to(type),
                 y = torch::arange(8).remainder(3).to(device(1));
    Tensor loss;
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      loss = torch::cross_entropy_loss(net->forward(x), y);
      loss.backward();
      optimizer.step();
    }
    return loss.item<float>();
  };
  EXPECT_NEAR(loss_after(torch::kHalf), loss_after(torch::kFloat), 0.02);
  EXPECT_NEAR(loss_after(torch::kBFloat16), loss_after(torch::kFloat), 0.05);
}

TEST(AutocastOnDevices, ComputesProductsInHalfPrecisionAndLossesInFloat32) {
  for (const torch::ScalarType type : kHalves) {
    nn::Linear linear(4, 3);
    linear->to(device(0));
    const Tensor x = numbers({2, 4}).to(device(0)), y = torch::tensor({0, 2}).to(device(0));
    Tensor scores, loss;
    {
      const Autocast autocast(device(0).type(), type);
      scores = linear(x);
      loss = torch::cross_entropy_loss(scores, y);
      EXPECT_EQ(torch::relu(scores).scalar_type(), type);
      EXPECT_EQ(torch::softmax(scores, 1).scalar_type(), torch::kFloat);
      EXPECT_EQ((scores + x.slice(1, 0, 3)).scalar_type(), torch::kFloat);
      const Autocast off(device(0).type(), torch::kFloat);
      EXPECT_EQ(linear(x).scalar_type(), torch::kFloat);
    }
    EXPECT_EQ(scores.scalar_type(), type);
    EXPECT_EQ(loss.scalar_type(), torch::kFloat);
    loss.backward();
    EXPECT_EQ(linear->weight.grad().scalar_type(), torch::kFloat);
    EXPECT_EQ(linear(x).scalar_type(), torch::kFloat);
  }
}

TEST(AutocastOnDevices, ConvertsChangedParametersAnew) {
  nn::Linear linear(nn::LinearOptions(1, 1).bias(false));
  linear->to(device(0));
  const Tensor x = torch::ones({1, 1}, device(0));
  const auto output = [&](float weight) {
    {
      torch::NoGradGuard no_grad;
      linear->weight.fill_(weight);
    }
    const Autocast autocast(device(0).type(), torch::kHalf);
    return linear(x).item<float>();
  };
  EXPECT_EQ(output(1), 1);
  EXPECT_EQ(output(2), 2);
}

TEST(AutocastOnDevices, GivesGradientsToParametersThatWereUsedWithoutBefore) {
  nn::Linear layer(3, 2);
  layer->to(device(0));
  const Tensor x = torch::ones({4, 3}, device(0));
  Tensor outputs;
  {
    const Autocast autocast(device(0).type(), torch::kBFloat16);
    {
      const torch::NoGradGuard no_grad;
      layer->forward(x);
    }
    outputs = layer->forward(x);
  }
  outputs.sum().backward();
  EXPECT_TRUE(layer->weight.grad().defined());
  EXPECT_TRUE(layer->bias.grad().defined());
}

TEST(AutocastOnDevices, IsOfOneThread) {
  const Autocast autocast(device(0).type(), torch::kHalf);
  torch::ScalarType elsewhere = torch::kDouble;
  std::thread([&] {
    const Tensor x = torch::ones({2, 2}, device(0));
    elsewhere = x.mm(x).scalar_type();
  }).join();
  EXPECT_EQ(elsewhere, torch::kFloat);
}

TEST(AutocastOnDevices, RefusesOtherTypes) {
  device(0);
  expect_bad_input([] { const Autocast autocast(device(0).type(), torch::kDouble); },
                   {"Double", "half, bfloat16"});
#if TORCH_VERSION_MAJOR < 2
  expect_bad_input([] { const Autocast autocast(torch::kCPU, torch::kHalf); }, {"only bfloat16"});
  EXPECT_EQ(torch::ones({2, 2}).mm(torch::ones({2, 2})).scalar_type(), torch::kFloat);
#endif
  expect_bad_input([] { const Autocast autocast(torch::kMeta, torch::kHalf); }, {"no autocast"});
}

}  // namespace
}  // namespace lockstep
