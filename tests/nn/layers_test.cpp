#include <gtest/gtest.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/pooling.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <functional>

#include "kernels/cpu.h"
#include "lockstep/error.h"
#include "lockstep/nn.h"
#include "lockstep/virtual_device.h"
#include "nn/convolutions.h"
#include "nn/layer.h"

namespace lockstep::nn {
namespace {

using torch::Tensor;

double difference(const Tensor& a, const Tensor& b) {
  return ((a - b).abs().max() / b.abs().max().clamp_min(1e-30)).item<double>();
}

// One layer twice, with the same parameters: ours and LibTorch's.
struct Twins {
  Twins(torch::nn::Conv2d ours_conv, torch::nn::Conv2d torch_conv, Activation activation)
      : convs{std::move(ours_conv), std::move(torch_conv)},
        norms{torch::nn::BatchNorm2d(convs[0]->options.out_channels()),
              torch::nn::BatchNorm2d(convs[0]->options.out_channels())},
        layers{ConvBn(convs[0], norms[0], activation, Kernels::fused),
               ConvBn(convs[1], norms[1], activation, Kernels::torch)} {
    torch::NoGradGuard no_grad;
    convs[1]->weight.copy_(convs[0]->weight);
    for (auto& norm : norms) {
      torch::manual_seed(3);
      norm->weight.uniform_(0.5, 1.5);
      norm->bias.uniform_(-1, 1);
    }
  }
  torch::nn::Conv2d convs[2];
  torch::nn::BatchNorm2d norms[2];
  ConvBn layers[2];
};

struct ConvBnCase {
  const char* name;
  int64_t in, out, kernel, stride;
  bool residual;
  Activation activation;
  const char* served_by;
};

class ConvBnLayers : public testing::TestWithParam<ConvBnCase> {};

TEST_P(ConvBnLayers, MatchLibTorchForwardsAndBackwards) {
  const ConvBnCase& c = GetParam();
  torch::manual_seed(1);
  Twins twins(convolution(c.in, c.out, c.kernel, c.stride),
              convolution(c.in, c.out, c.kernel, c.stride), c.activation);
  const bool first_layer = c.in % 8 != 0;
  Tensor xs[2], residuals[2], ys[2];
  for (int i = 0; i < 2; ++i) {
    torch::manual_seed(2);
    xs[i] = torch::randn({5, c.in, 8, 8}).set_requires_grad(!first_layer);
    const int64_t side = 8 / c.stride;
    if (c.residual) residuals[i] = torch::randn({5, c.out, side, side}).requires_grad_();
    ys[i] = plain(twins.layers[i](xs[i], residuals[i]));
    (ys[i] * torch::randn(ys[i].sizes())).sum().backward();
  }
  EXPECT_EQ(twins.layers[0].served_by(), c.served_by);
  EXPECT_EQ(twins.layers[1].served_by(), "torch");
  EXPECT_LT(difference(ys[0], ys[1]), 1e-5);
  if (!first_layer) {
    EXPECT_LT(difference(xs[0].grad(), xs[1].grad()), 1e-4);
  }
  if (c.residual) {
    EXPECT_LT(difference(residuals[0].grad(), residuals[1].grad()), 1e-5);
  }
  EXPECT_LT(difference(twins.convs[0]->weight.grad(), twins.convs[1]->weight.grad()), 1e-4);
  EXPECT_LT(difference(twins.norms[0]->weight.grad(), twins.norms[1]->weight.grad()), 1e-4);
  EXPECT_LT(difference(twins.norms[0]->bias.grad(), twins.norms[1]->bias.grad()), 1e-4);
  EXPECT_LT(difference(twins.norms[0]->running_mean, twins.norms[1]->running_mean), 1e-5);
  EXPECT_LT(difference(twins.norms[0]->running_var, twins.norms[1]->running_var), 1e-5);
  EXPECT_EQ(twins.norms[0]->num_batches_tracked.item<int64_t>(), 1);
}

TEST_P(ConvBnLayers, MatchLibTorchInEvaluation) {
  const ConvBnCase& c = GetParam();
  torch::manual_seed(1);
  Twins twins(convolution(c.in, c.out, c.kernel, c.stride),
              convolution(c.in, c.out, c.kernel, c.stride), c.activation);
  Tensor ys[2], dws[2];
  for (int i = 0; i < 2; ++i) {
    torch::manual_seed(2);
    torch::NoGradGuard no_grad;
    twins.norms[i]->running_mean.uniform_(-1, 1);
    twins.norms[i]->running_var.uniform_(0.5, 2);
    twins.norms[i]->eval();
    const Tensor x = torch::randn({5, c.in, 8, 8});
    torch::AutoGradMode grad(true);
    ys[i] = plain(twins.layers[i](x));
    (ys[i] * torch::randn(ys[i].sizes())).sum().backward();
  }
  EXPECT_LT(difference(ys[0], ys[1]), 1e-5);
  EXPECT_LT(difference(twins.convs[0]->weight.grad(), twins.convs[1]->weight.grad()), 1e-4);
  EXPECT_LT(difference(twins.norms[0]->weight.grad(), twins.norms[1]->weight.grad()), 1e-4);
  EXPECT_EQ(twins.norms[0]->num_batches_tracked.item<int64_t>(), 0);
}

const char* const kByDefinition = kernels::has_avx512() ? "packed" : "direct";

INSTANTIATE_TEST_SUITE_P(
    For, ConvBnLayers,
    testing::Values(
        ConvBnCase{"AStartingLayer", 3, 16, 3, 1, false, Activation::relu, "direct"},
        ConvBnCase{"AnInnerLayer", 16, 16, 3, 1, false, Activation::relu, "winograd"},
        ConvBnCase{"ABlocksEnd", 16, 16, 3, 1, true, Activation::relu, "winograd"},
        ConvBnCase{"AHalvingLayer", 16, 32, 3, 2, false, Activation::relu, kByDefinition},
        ConvBnCase{"AProjection", 16, 32, 1, 2, false, Activation::none, kByDefinition},
        ConvBnCase{"NarrowImages", 8, 8, 3, 1, false, Activation::relu, kByDefinition},
        ConvBnCase{"AResidualWithoutActivation", 16, 16, 3, 1, true, Activation::none, "winograd"}),
    [](const auto& of) { return of.param.name; });

// Where filters mostly lie on padding, as in the last layers of a network of small images.
TEST(ConvBnLayer, MatchesLibTorchOnTinyImages) {
  for (const int64_t side : {1, 2, 4, 8})
    for (const int64_t stride : {1, 2})
      for (const int64_t kernel : {1, 3, 5}) {
        torch::manual_seed(1);
        Twins twins(convolution(128, 136, kernel, stride), convolution(128, 136, kernel, stride),
                    Activation::none);
        Tensor xs[2], ys[2];
        for (int i = 0; i < 2; ++i) {
          torch::manual_seed(2);
          xs[i] = torch::randn({9, 128, side, side}).requires_grad_();
          ys[i] = plain(twins.layers[i](xs[i]));
          (ys[i] * torch::randn(ys[i].sizes())).sum().backward();
        }
        SCOPED_TRACE(testing::Message() << "side " << side << ", kernel " << kernel << ", stride "
                                        << stride << ", by " << twins.layers[0].served_by());
        EXPECT_NE(twins.layers[0].served_by(), "torch");
        EXPECT_LT(difference(ys[0], ys[1]), 1e-4);
        EXPECT_LT(difference(xs[0].grad(), xs[1].grad()), 1e-4);
        EXPECT_LT(difference(twins.convs[0]->weight.grad(), twins.convs[1]->weight.grad()), 1e-4);
        EXPECT_LT(difference(twins.norms[0]->weight.grad(), twins.norms[1]->weight.grad()), 1e-4);
      }
}

TEST(ConvBnLayer, LeavesWhatItCannotServeToLibTorch) {
  torch::nn::BatchNorm2d norm(12);
  ConvBn odd_channels(convolution(16, 12), norm);
  EXPECT_EQ(odd_channels(torch::randn({2, 16, 5, 5})).sizes(), (std::vector<int64_t>{2, 12, 5, 5}));
  EXPECT_EQ(odd_channels.served_by(), "torch");
  ConvBn grouped(torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 16, 3).groups(2).bias(false)),
                 torch::nn::BatchNorm2d(16));
  grouped(torch::randn({2, 16, 5, 5}));
  EXPECT_EQ(grouped.served_by(), "torch");
  torch::nn::Conv2d doubles = convolution(16, 16);
  torch::nn::BatchNorm2d doubles_norm(16);
  doubles->to(torch::kFloat64);
  doubles_norm->to(torch::kFloat64);
  ConvBn wide(doubles, doubles_norm);
  wide(torch::randn({2, 16, 5, 5}, torch::kFloat64));
  EXPECT_EQ(wide.served_by(), "torch");
  // The gradient of an image with three channels.
  ConvBn first(convolution(3, 16), torch::nn::BatchNorm2d(16));
  first(torch::randn({2, 3, 5, 5}).requires_grad_());
  EXPECT_EQ(first.served_by(), "torch");
}

TEST(ConvBnLayer, TakesBlockedImagesFromALayerThatLibTorchServes) {
  ConvBn ours(convolution(16, 16), torch::nn::BatchNorm2d(16));
  ConvBn theirs(convolution(16, 16), torch::nn::BatchNorm2d(16), Activation::relu, Kernels::torch);
  const Tensor x = torch::randn({2, 16, 8, 8});
  const Tensor y = ours(theirs(ours(x)), theirs(x));
  EXPECT_TRUE(is_blocked(y));
  EXPECT_EQ(plain(y).sizes(), x.sizes());
}

TEST(ConvBnLayer, RefusesABias) {
  EXPECT_THROW(ConvBn(torch::nn::Conv2d(8, 8, 3), torch::nn::BatchNorm2d(8)), BadInput);
}

TEST(ConvBnLayer, RefusesToLearnFromOneValueAChannel) {
  ConvBn layer(convolution(8, 8), torch::nn::BatchNorm2d(8));
  EXPECT_THROW(layer(torch::randn({1, 8, 1, 1})), std::exception);
}

TEST(ConvBnLayer, NoticesThatAnOptimizerChangedItsWeights) {
  torch::manual_seed(1);
  Twins twins(convolution(16, 16), convolution(16, 16), Activation::relu);
  const Tensor x = torch::randn({2, 16, 8, 8});
  const Tensor weight = torch::randn(x.sizes());
  for (int i = 0; i < 2; ++i) {
    torch::optim::SGD optimizer({twins.convs[i]->weight}, 1e-4);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      (plain(twins.layers[i](x)) * weight).sum().backward();
      optimizer.step();
    }
  }
  EXPECT_LT(difference(twins.convs[0]->weight, twins.convs[1]->weight), 1e-4);
}

TEST(ConvBnLayer, ServesInputsOfSeveralShapesInTurn) {
  torch::manual_seed(1);
  Twins twins(convolution(8, 16), convolution(8, 16), Activation::relu);
  for (const int64_t side : {8, 12, 8, 5}) {
    const Tensor x = torch::randn({3, 8, side, side});
    EXPECT_LT(difference(plain(twins.layers[0](x)), twins.layers[1](x)), 1e-5);
  }
}

TEST(ConvBnReluModule, NamesItsParametersAndLearns) {
  ConvBnRelu layer(torch::nn::Conv2dOptions(8, 16, 3).padding(1));
  std::vector<std::string> names;
  for (const auto& item : layer->named_parameters()) names.push_back(item.key());
  EXPECT_EQ(names, (std::vector<std::string>{"conv.weight", "bn.weight", "bn.bias"}));
  layer(torch::randn({2, 8, 8, 8})).sum().backward();
  EXPECT_TRUE(layer->conv->weight.grad().defined());
}

TEST(ConvMaxPoolLayer, MatchesLibTorch) {
  for (const int64_t in : {1, 16}) {
    torch::manual_seed(1);
    torch::nn::Conv2d convs[2] = {torch::nn::Conv2d(in, 32, 3), torch::nn::Conv2d(in, 32, 3)};
    {
      torch::NoGradGuard no_grad;
      convs[1]->weight.copy_(convs[0]->weight);
      convs[1]->bias.copy_(convs[0]->bias);
    }
    ConvMaxPool layers[2] = {ConvMaxPool(convs[0]), ConvMaxPool(convs[1], Kernels::torch)};
    Tensor xs[2], ys[2];
    for (int i = 0; i < 2; ++i) {
      torch::manual_seed(2);
      xs[i] = torch::randn({3, in, 13, 13}).set_requires_grad(in > 1);
      ys[i] = plain(layers[i](xs[i]));
      (ys[i] * torch::randn(ys[i].sizes())).sum().backward();
    }
    EXPECT_NE(layers[0].served_by(), "torch");
    EXPECT_LT(difference(ys[0], ys[1]), 1e-5);
    EXPECT_LT(difference(convs[0]->weight.grad(), convs[1]->weight.grad()), 1e-4);
    EXPECT_LT(difference(convs[0]->bias.grad(), convs[1]->bias.grad()), 1e-4);
    if (in > 1) {
      EXPECT_LT(difference(xs[0].grad(), xs[1].grad()), 1e-4);
    }
  }
}

TEST(MeanPool, MatchesLibTorchInEitherLayout) {
  Tensor x = torch::randn({2, 16, 5, 5}).requires_grad_();
  const Tensor ours = mean_pool(blocked(x));
  EXPECT_LT(difference(ours, x.mean({2, 3})), 1e-6);
  EXPECT_TRUE(mean_pool(x).equal(x.mean({2, 3})));
  const Tensor weight = torch::randn({2, 16});
  (ours * weight).sum().backward();
  EXPECT_LT(difference(x.grad(), (weight / 25).view({2, 16, 1, 1}).expand_as(x)), 1e-6);
}

TEST(Subsample, TakesEveryOtherPixelBetweenChannelsOfZerosInEitherLayout) {
  Tensor x = torch::randn({2, 16, 5, 6}).requires_grad_();
  const Tensor small = subsample(x, 2, 8);
  EXPECT_EQ(small.sizes(), (std::vector<int64_t>{2, 32, 3, 3}));
  EXPECT_EQ(small.slice(1, 0, 8).count_nonzero().item<int64_t>(), 0);
  EXPECT_EQ(small.slice(1, 24).count_nonzero().item<int64_t>(), 0);
  EXPECT_TRUE(small[1][8 + 3][2][1].equal(x[1][3][4][2]));
  const Tensor from_blocked = subsample(blocked(x), 2, 8);
  EXPECT_TRUE(is_blocked(from_blocked));
  EXPECT_TRUE(plain(from_blocked).equal(small));
  from_blocked.sum().backward();
  EXPECT_EQ(x.grad().sum().item<double>(), 2 * 16 * 3 * 3);
}

TEST(Subsample, LeavesTheBlockedLayoutWhereZerosDoNotComeInEights) {
  const Tensor x = torch::randn({2, 16, 5, 5});
  EXPECT_TRUE(subsample(blocked(x), 2, 4).equal(subsample(x, 2, 4)));
}

TEST(ConvBnLayer, GivesALayerOfLibTorchBeforeItTheRightGradients) {
  torch::manual_seed(1);
  const Tensor x = torch::randn({1, 3, 9, 10});
  Tensor gradients[2];
  for (const bool fused : {false, true}) {
    torch::manual_seed(2);
    const Kernels kernels = fused ? Kernels::fused : Kernels::torch;
    const torch::nn::Conv2d dilated(torch::nn::Conv2dOptions(3, 8, 3).dilation(2).bias(false));
    const torch::nn::Conv2d second = convolution(8, 16);
    ConvBn one(dilated, torch::nn::BatchNorm2d(8), Activation::none, kernels);
    ConvBn other(second, torch::nn::BatchNorm2d(16), Activation::relu, kernels);
    plain(other(one(x))).pow(2).sum().backward();
    gradients[fused ? 1 : 0] = dilated->weight.grad();
  }
  EXPECT_LT(difference(gradients[1], gradients[0]), 1e-4);
}

TEST(ConvBnLayer, ReadsParametersAndBuffersThatWereReplacedAsLibTorchDoes) {
  const auto strided = [] { return torch::rand({32}).slice(0, 0, 32, 2); };
  const auto expanded = [] { return torch::rand({1}).expand({16}); };
  const std::vector<std::function<void(torch::nn::BatchNorm2dImpl&)>> replacements = {
      [&](auto& bn) { bn.weight.set_data(strided()); },
      [&](auto& bn) { bn.bias.set_data(strided()); },
      [&](auto& bn) { bn.weight.set_data(expanded()); },
      [&](auto& bn) { bn.running_mean.set_data(strided()); },
      [&](auto& bn) { bn.running_var.set_data(strided()); }};
  for (const auto& replace : replacements)
    for (const bool trains : {true, false}) {
      torch::manual_seed(1);
      Twins twins(convolution(8, 16), convolution(8, 16), Activation::relu);
      const Tensor x = torch::randn({3, 8, 6, 6});
      Tensor ys[2], means[2];
      for (int i = 0; i < 2; ++i) {
        torch::manual_seed(5);
        replace(*twins.norms[i]);
        twins.norms[i]->train(trains);
        ys[i] = plain(twins.layers[i](x));
        means[i] = twins.norms[i]->running_mean;
      }
      EXPECT_LT(difference(ys[0], ys[1]), 1e-4);
      EXPECT_LT(difference(means[0] + 1, means[1] + 1), 1e-4);
    }
  Twins twins(convolution(8, 16), convolution(8, 16), Activation::relu);
  twins.norms[0]->bias.set_data(torch::rand({1}));
  EXPECT_THROW(twins.layers[0](torch::randn({3, 8, 6, 6})), c10::Error);
}

TEST(ConvBnLayer, TakesWeightsThatAreReplacedBetweenItsPasses) {
  torch::manual_seed(1);
  Twins twins(convolution(8, 16), convolution(8, 16), Activation::relu);
  const Tensor values = torch::randn({3, 8, 6, 6}), weights = torch::randn({16, 8, 3, 3});
  Tensor xs[2];
  for (int i = 0; i < 2; ++i) {
    xs[i] = values.clone().requires_grad_();
    const Tensor y = plain(twins.layers[i](xs[i]));
    twins.convs[i]->weight.set_data(weights.contiguous(at::MemoryFormat::ChannelsLast));
    y.pow(2).sum().backward();
  }
  EXPECT_LT(difference(xs[0].grad(), xs[1].grad()), 1e-4);
  EXPECT_LT(difference(twins.convs[0]->weight.grad(), twins.convs[1]->weight.grad()), 1e-4);

  twins.convs[0]->weight.set_data(weights);
  const Tensor y = twins.layers[0](xs[0]);
  twins.convs[0]->weight.set_data(torch::randn({1}));
  EXPECT_THROW(y.sum().backward(), BadInput);
}

TEST(ConvBnLayer, LeavesWhatKernelsDoNotKnowToLibTorch) {
  const auto layer_of = [](const torch::nn::Conv2dOptions& options) {
    return ConvBn(torch::nn::Conv2d(torch::nn::Conv2dOptions(options).bias(false)),
                  torch::nn::BatchNorm2d(16), Activation::relu, Kernels::fused);
  };
  const torch::nn::Conv2dOptions options(8, 16, 3);
  const Tensor x = torch::randn({2, 8, 6, 6});
  EXPECT_THROW(layer_of(torch::nn::Conv2dOptions(options).stride(0))(x), c10::Error);
  EXPECT_THROW(layer_of(torch::nn::Conv2dOptions(options).padding(-1))(x), c10::Error);
  EXPECT_THROW(layer_of(torch::nn::Conv2dOptions(8, 16, 2).padding(1))(x.slice(2, 0, 0)),
               c10::Error);
  torch::manual_seed(1);
  Twins twins(convolution(8, 16), convolution(8, 16), Activation::relu);
  EXPECT_LT(difference(plain(twins.layers[0](torch::_neg_view(x))),
                       plain(twins.layers[1](torch::_neg_view(x)))),
            1e-4);
}

// Memory of prepared weights, after calls with so many samples each.
int64_t kept_after(const std::vector<int64_t>& samples, int64_t limit) {
  limit_cpu_memory(limit);
  const int64_t before = memory_of(torch::kCPU).now[MemoryUse::workspace];
  const Twins twins(convolution(16, 16), convolution(16, 16), Activation::relu);
  ConvBn layer = twins.layers[0];
  for (const int64_t each : samples) layer(torch::randn({each, 16, 8, 8}));
  const int64_t kept = memory_of(torch::kCPU).now[MemoryUse::workspace] - before;
  limit_cpu_memory(0);
  return kept;
}

TEST(Layers, KeepWeightsForOneShapeWhereMemoryIsLimited) {
  const int64_t limit = int64_t{1} << 30;
  const int64_t one = kept_after({4}, limit);
  EXPECT_GT(one, 0);
  EXPECT_EQ(kept_after({1, 2, 3, 4}, limit), one);
  EXPECT_GT(kept_after({1, 2, 3, 4}, 0), one);
}

TEST(Layers, KeepWeightsForAFewShapes) {
  std::vector<int64_t> some, many;
  for (int64_t samples = 1; samples <= 8; ++samples) some.push_back(samples);
  for (int64_t samples = 1; samples <= 40; ++samples) many.push_back(samples);
  EXPECT_LT(kept_after(many, 0), 2 * kept_after(some, 0));
}

TEST(Layers, KeepWhatABackwardPassNeedsWhereMemoryIsLimited) {
  limit_cpu_memory(int64_t{1} << 30);
  torch::manual_seed(1);
  Twins twins(convolution(16, 16), convolution(16, 16), Activation::relu);
  Tensor xs[2];
  for (int i = 0; i < 2; ++i) {
    torch::manual_seed(2);
    xs[i] = torch::randn({2, 16, 8, 8}).requires_grad_();
    const Tensor y = plain(twins.layers[i](xs[i]));
    for (const int64_t other : {1, 3, 5}) twins.layers[i](torch::randn({other, 16, 8, 8}));
    (y * torch::arange(8.0)).sum().backward();
  }
  EXPECT_LT(difference(xs[0].grad(), xs[1].grad()), 1e-4);
  EXPECT_LT(difference(twins.convs[0]->weight.grad(), twins.convs[1]->weight.grad()), 1e-3);
  limit_cpu_memory(0);
}

TEST(CrossEntropy, MatchesLibTorchWithAndWithoutSmoothing) {
  for (const double smoothing : {0.0, 0.1}) {
    torch::manual_seed(1);
    Tensor scores = (torch::randn({7, 10}) * 5).requires_grad_();
    Tensor copy = scores.detach().clone().requires_grad_();
    const Tensor labels = torch::randint(0, 10, {7});
    const Tensor loss = cross_entropy(scores, labels, smoothing);
    const Tensor expected =
        torch::cross_entropy_loss(copy, labels, {}, at::Reduction::Mean, -100, smoothing);
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-6);
    (loss * 3).backward();
    (expected * 3).backward();
    EXPECT_LT(difference(scores.grad(), copy.grad()), 1e-5);
  }
}

TEST(CrossEntropy, RefusesALabelThatIsNoClass) {
  EXPECT_THROW(cross_entropy(torch::randn({1, 3}), torch::tensor({3})), BadInput);
}

TEST(CrossEntropy, StandsScoresOfAnySize) {
  const Tensor loss = cross_entropy(torch::tensor({{1000.0F, -1000.0F}}), torch::tensor({1}));
  EXPECT_NEAR(loss.item<double>(), 2000, 1e-3);
}

}  // namespace
}  // namespace lockstep::nn
