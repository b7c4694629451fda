#include "model/model.h"

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>

#include <map>

#include "expect_error.h"
#include "lockstep/error.h"

namespace lockstep::model {
namespace {

int64_t parameter_count(const Model& model) {
  int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter.numel();
  return count;
}

std::shared_ptr<Model> make(const std::string& name, std::vector<int64_t> input = {3, 32, 32}) {
  return make_model({.name = name, .input = std::move(input)});
}

TEST(Model, EveryOneMapsABatchToOneScorePerClass) {
  for (const std::string& name : model_names()) {
    const auto model = make_model({.name = name, .input = {3, 32, 32}, .classes = 7});
    EXPECT_EQ(model->forward(torch::rand({2, 3, 32, 32})).sizes().vec(),
              (std::vector<int64_t>{2, 7}))
        << name;
  }
}

// Keras states 34,826 for its convnet; He et al. state 0.27, 0.46, 0.66, 0.85 and 1.7 million.
TEST(Model, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(parameter_count(*make("convnet", {1, 28, 28})), 34'826);
  EXPECT_EQ(parameter_count(*make("logistic", {1, 28, 28})), 7'850);
  EXPECT_EQ(parameter_count(*make("resnet18")), 11'173'962);
  EXPECT_EQ(parameter_count(*make("resnet20")), 269'722);
  EXPECT_EQ(parameter_count(*make("resnet32")), 464'154);
  EXPECT_EQ(parameter_count(*make("resnet44")), 658'586);
  EXPECT_EQ(parameter_count(*make("resnet56")), 853'018);
  EXPECT_EQ(parameter_count(*make("resnet110")), 1'727'962);
}

TEST(Model, ResNet18UsesTorchvisionsNames) {
  const auto parameters = make("resnet18")->named_parameters();
  for (const char* name :
       {"conv1.weight", "bn1.bias", "layer1.0.conv1.weight", "layer1.1.bn2.weight",
        "layer2.0.downsample.0.weight", "layer4.0.downsample.1.bias", "fc.bias"})
    EXPECT_TRUE(parameters.contains(name)) << name;
  EXPECT_FALSE(parameters.contains("layer1.0.downsample.0.weight"));
  EXPECT_TRUE(make("resnet18")->named_buffers().contains("layer2.0.bn1.running_mean"));
}

TEST(Model, DenseOnesTakeSamplesOfAnyRank) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{5}, {4, 6}, {2, 3, 8, 8}}) {
    std::vector<int64_t> batch = shape;
    batch.insert(batch.begin(), 3);
    EXPECT_EQ(make("mlp", shape)->forward(torch::rand(batch)).size(0), 3);
    EXPECT_EQ(make("logistic", shape)->forward(torch::rand(batch)).size(1), 10);
  }
}

TEST(Model, InitialWeightsFollowFromTheSeedAlone) {
  const auto weights = [](uint64_t seed) {
    return make_model({.name = "resnet20", .input = {3, 32, 32}, .seed = seed})
        ->named_parameters()["layer2.0.conv1.weight"];
  };
  const auto first = weights(1);
  torch::rand({100});
  EXPECT_TRUE(first.equal(weights(1)));
  EXPECT_FALSE(first.equal(weights(2)));
}

struct ScoresAndGradients {
  torch::Tensor scores;
  torch::OrderedDict<std::string, torch::Tensor> parameters;
};

ScoresAndGradients run_once(nn::Kernels kernels, torch::Dtype type, const std::string& name) {
  const auto model = make_model({.name = name, .input = {3, 32, 32}, .kernels = kernels});
  model->to(type);
  torch::manual_seed(1);
  const torch::Tensor scores = model->forward(torch::randn({8, 3, 32, 32}).to(type));
  torch::cross_entropy_loss(scores, torch::arange(8)).backward();
  return {scores.detach().to(torch::kFloat64), model->named_parameters()};
}

// Single layers' gradients agree to 1e-4 (tests/nn). A whole network's do only until a ReLU that is
// nearly zero falls to the other side, which noise of 1e-5 in LibTorch's own input does as well.
TEST(Model, FusedKernelsGiveLibTorchsScoresAndGradients) {
  for (const std::string name : {"resnet20", "resnet18"}) {
    const ScoresAndGradients exact = run_once(nn::Kernels::torch, torch::kFloat64, name);
    const ScoresAndGradients ours = run_once(nn::Kernels::fused, torch::kFloat32, name);
    const auto error = [](const torch::Tensor& a, const torch::Tensor& b) {
      return ((a.to(torch::kFloat64) - b).norm() / b.norm()).item<double>();
    };
    EXPECT_LT(error(ours.scores, exact.scores), 1e-4) << name;
    for (const auto& item : ours.parameters)
      EXPECT_LT(error(item.value().grad(), exact.parameters[item.key()].grad()), 0.05)
          << name << ' ' << item.key();
  }
}

TEST(Model, TellsWhoServedItsConvolutions) {
  const auto served = [](nn::Kernels kernels) {
    const auto model = make_model({.name = "resnet20", .input = {3, 32, 32}, .kernels = kernels});
    model->forward(torch::rand({2, 3, 32, 32}));
    std::map<std::string, std::string> by_layer;
    for (const LayerKernel& layer : model->kernels()) by_layer[layer.layer] = layer.served_by;
    return by_layer;
  };
  auto ours = served(nn::Kernels::fused);
  EXPECT_EQ(ours.size(), 19);
  EXPECT_EQ(ours["conv1"], "direct");
  EXPECT_EQ(ours["layer1.0.conv1"], "winograd");
  EXPECT_EQ(ours["layer2.0.conv1"], "direct");
  for (const auto& [layer, by] : served(nn::Kernels::torch)) EXPECT_EQ(by, "torch") << layer;
}

TEST(Model, ZeroGammaMakesEveryBlockBeginAsTheIdentity) {
  const ModelOptions options{.name = "resnet20", .input = {3, 32, 32}, .zero_gamma = true};
  const auto model = make_model(options);
  int zeros = 0;
  for (const auto& item : model->named_parameters())
    if (item.key().ends_with("bn2.weight")) {
      EXPECT_EQ(item.value().abs().max().item<float>(), 0) << item.key();
      ++zeros;
    }
  EXPECT_EQ(zeros, 9);
}

TEST(Model, RefusesAnUnknownNameAndSuggestsOne) {
  const std::string message = message_of<BadInput>([] { make("resnet200"); });
  EXPECT_NE(message.find("did you mean 'resnet20'"), std::string::npos) << message;
}

TEST(Model, RefusesSamplesThatAreNoImages) {
  EXPECT_NE(message_of<BadInput>([] {
              make("convnet", {30, 4});
            }).find("30 x 4"),
            std::string::npos);
  EXPECT_NE(message_of<BadInput>([] {
              make("convnet", {28, 28, 1});
            }).find("channels_last"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::model
