#include "model/models.h"

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>

#include <map>

#include "expect_error.h"
#include "kernels/cpu.h"
#include "lockstep/error.h"
#include "some_models.h"

namespace lockstep::model {
namespace {

int64_t parameter_count(const Model& model) {
  int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter.numel();
  return count;
}

Shape sample_for(const std::string& model) {
  if (model == "convnet1d") return {16, 5};
  if (model == "convnet3d") return {6, 3, 8, 8};
  return {3, 32, 32};
}

TEST(Model, EveryOneMapsABatchToOneScorePerClass) {
  for (const std::string& name : models().names()) {
    const Shape shape = sample_for(name);
    const auto model = some_model(name, shape, 7);
    Shape batch = {2};
    batch.insert(batch.end(), shape.begin(), shape.end());
    EXPECT_EQ(model->forward(torch::rand(batch)).only().sizes().vec(), (std::vector<int64_t>{2, 7}))
        << name;
  }
}

TEST(Model, ForSeriesOrVideosSaysWhichSamplesItNeeds) {
  expect_bad_input([] { some_model("convnet1d", {3, 32, 32}); },
                   {"'convnet1d': needs series (steps x features)", "a sample is 3 x 32 x 32"});
  expect_bad_input([] { some_model("convnet1d", {3, 5}); },
                   {"at least 4", "save x.transpose(0, 2, 1)"});
  expect_bad_input([] { some_model("convnet3d", {3, 32, 32}); },
                   {"videos (frames x channels x height x width)"});
  expect_bad_input([] { some_model("convnet3d", {8, 3, 16, 2}); }, {"a sample is 8 x 3 x 16 x 2"});
  ModelOptions options = model_options("convnet1d", {16, 4});
  options.options = {{"width", "0"}};
  expect_bad_input([&] { make_model(options, 1); }, {"model.options.width = 0"});
}

// Keras states 34,826 for its convnet; He et al. state 0.27, 0.46, 0.66, 0.85 and 1.7 million.
TEST(Model, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(parameter_count(*some_model("convnet", {1, 28, 28})), 34'826);
  EXPECT_EQ(parameter_count(*some_model("logistic", {1, 28, 28})), 7'850);
  EXPECT_EQ(parameter_count(*some_model("resnet18")), 11'173'962);
  EXPECT_EQ(parameter_count(*some_model("resnet20")), 269'722);
  EXPECT_EQ(parameter_count(*some_model("resnet32")), 464'154);
  EXPECT_EQ(parameter_count(*some_model("resnet44")), 658'586);
  EXPECT_EQ(parameter_count(*some_model("resnet56")), 853'018);
  EXPECT_EQ(parameter_count(*some_model("resnet110")), 1'727'962);
}

TEST(Model, ResNet18UsesTorchvisionsNames) {
  const auto parameters = some_model("resnet18")->named_parameters();
  for (const char* name :
       {"conv1.weight", "bn1.bias", "layer1.0.conv1.weight", "layer1.1.bn2.weight",
        "layer2.0.downsample.0.weight", "layer4.0.downsample.1.bias", "fc.bias"})
    EXPECT_TRUE(parameters.contains(name)) << name;
  EXPECT_FALSE(parameters.contains("layer1.0.downsample.0.weight"));
  EXPECT_TRUE(some_model("resnet18")->named_buffers().contains("layer2.0.bn1.running_mean"));
}

TEST(Model, DenseOnesTakeSamplesOfAnyRank) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{5}, {4, 6}, {2, 3, 8, 8}}) {
    std::vector<int64_t> batch = shape;
    batch.insert(batch.begin(), 3);
    EXPECT_EQ(some_model("mlp", shape)->forward(torch::rand(batch)).only().size(0), 3);
    EXPECT_EQ(some_model("logistic", shape)->forward(torch::rand(batch)).only().size(1), 10);
  }
}

TEST(Model, InitialWeightsFollowFromTheSeedAlone) {
  const auto weights = [](uint64_t seed) {
    return make_model(model_options("resnet20", {3, 32, 32}), seed)
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
  const auto model = some_model(name, {3, 32, 32}, 10, kernels);
  model->to(type);
  torch::manual_seed(1);
  const torch::Tensor scores = model->forward(torch::randn({8, 3, 32, 32}).to(type)).only();
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
    const auto model = some_model("resnet20", {3, 32, 32}, 10, kernels);
    model->forward(torch::rand({2, 3, 32, 32}));
    std::map<std::string, std::string> by_layer;
    for (const Model::LayerKernel& layer : model->kernels())
      by_layer[layer.layer] = layer.served_by;
    return by_layer;
  };
  auto ours = served(nn::Kernels::fused);
  EXPECT_EQ(ours.size(), 19);
  EXPECT_EQ(ours["conv1"], "direct");
  EXPECT_EQ(ours["layer1.0.conv1"], "winograd");
  EXPECT_EQ(ours["layer2.0.conv1"], kernels::has_avx512() ? "packed" : "direct");
  for (const auto& [layer, by] : served(nn::Kernels::torch)) EXPECT_EQ(by, "torch") << layer;
}

TEST(Model, ZeroGammaMakesEveryBlockBeginAsTheIdentity) {
  ModelOptions options = model_options("resnet20", {3, 32, 32});
  options.options = Options({{"zero_gamma", "true"}});
  const auto model = make_model(options, 1);
  int zeros = 0;
  for (const auto& item : model->named_parameters())
    if (item.key().ends_with("bn2.weight")) {
      EXPECT_EQ(item.value().abs().max().item<float>(), 0) << item.key();
      ++zeros;
    }
  EXPECT_EQ(zeros, 9);
}

TEST(Model, RefusesAnUnknownNameAndSuggestsOne) {
  const std::string message = message_of<BadInput>([] { some_model("resnet200"); });
  EXPECT_NE(message.find("did you mean 'resnet20'"), std::string::npos) << message;
}

TEST(Model, RefusesOptionsThatItDoesNotKnow) {
  ModelOptions options = model_options("resnet20", {3, 32, 32});
  options.options = Options({{"zero_gama", "true"}});
  expect_bad_input([&] { make_model(options, 1); }, {"resnet20", "zero_gama", "zero_gamma"});
}

TEST(Model, SaysThatItIsTheObjectiveThatExpectsSeveralOutputs) {
  ModelOptions options = model_options("mlp", {4});
  options.outputs = {{"side", Type::f32, {}}, {"distance", Type::f32, {}}};
  expect_bad_input([&] { make_model(options, 1); },
                   {"'mlp': has one output, but the objective expects 2: 'side', 'distance'"});
}

TEST(Model, RefusesSamplesThatAreNoImages) {
  EXPECT_NE(message_of<BadInput>([] { some_model("convnet", {30, 4}); }).find("30 x 4"),
            std::string::npos);
  EXPECT_NE(message_of<BadInput>([] { some_model("convnet", {28, 28, 1}); }).find("channels_last"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::model
