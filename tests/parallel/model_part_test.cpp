#include "parallel/model_part.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "expect_error.h"
#include "lockstep/error.h"
#include "parallel/generator.h"
#include "parallel/layer_uses.h"

namespace lockstep::parallel {
namespace {

/// Four layers with BatchNorm and dropout, a parameter of the model itself, and weights that may be
/// shared.
struct Net : SequentialModel {
  enum class Ends { apart, shared };

  explicit Net(Ends ends = Ends::apart) {
    torch::manual_seed(1);
    const auto first = register_module("first", torch::nn::Linear(6, 6));
    add_layer("first", first);
    torch::nn::Sequential middle(torch::nn::BatchNorm1d(6), torch::nn::Dropout(0.5));
    add_layers("middle", register_module("middle", std::move(middle)));
    const auto last = register_module(
        "last", ends == Ends::shared ? torch::nn::Linear(first) : torch::nn::Linear(6, 6));
    scale = register_parameter("scale", torch::full({6}, 2.0));
    add_layer("last", {"last", "scale"},
              [this, last](const Tensors& x) { return Tensors(last->forward(x.only()) * scale); });
  }
  torch::Tensor scale;
};

std::vector<std::string> names_of(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& item : module.named_parameters()) names.push_back(item.key());
  for (const auto& item : module.named_buffers()) names.push_back(item.key());
  return names;
}

TEST(ModelPart, HasTheNamesOfItsModelAndSharesItsTensors) {
  const auto net = std::make_shared<Net>();
  const ModelPart part(net, {1, 4});
  EXPECT_EQ(names_of(part.module()),
            (std::vector<std::string>{"scale", "middle.0.weight", "middle.0.bias", "last.weight",
                                      "last.bias", "middle.0.running_mean", "middle.0.running_var",
                                      "middle.0.num_batches_tracked"}));
  EXPECT_TRUE(part.module().named_parameters()["scale"].is_same(net->scale));
  EXPECT_FALSE(part.is_first());
  EXPECT_TRUE(part.is_last());
  EXPECT_EQ(part.describe(), "layers middle.0 to last");
}

TEST(ModelPart, AfterPartComputesTheModel) {
  const auto net = std::make_shared<Net>();
  const auto x = torch::randn({8, 6});
  torch::manual_seed(3);
  const auto expected = net->forward(x).only();
  torch::manual_seed(3);
  const Tensors half = ModelPart(net, {0, 2}).forward(x);
  EXPECT_TRUE(ModelPart(net, {2, 4}).forward(half).only().equal(expected));
}

TEST(ModelPart, OfOtherWorkersHasNoMemory) {
  const auto net = std::make_shared<Net>();
  release_others(*net, {ModelPart(net, {0, 1})});
  EXPECT_EQ(net->named_parameters()["first.weight"].numel(), 36);
  EXPECT_EQ(net->scale.numel(), 0);
  EXPECT_EQ(net->named_buffers()["middle.0.running_mean"].numel(), 0);
}

TEST(ModelPart, CannotShareWeightsWithAnother) {
  const Net net(Net::Ends::shared);
  expect_bad_input([&] { check_parts(net, {{0, 2}, {2, 4}}); },
                   {"--split 2: layers first and last share parameter 'first.weight'",
                    "parts 0 and 1", "at most 1 part can be made so"});
  EXPECT_NO_THROW(check_parts(net, {{0, 4}}));
}

TEST(ModelPart, WhoseLayersShareWeightsCannotBeComputedAgain) {
  expect_bad_input([] { check_recomputed(Net(Net::Ends::shared)); },
                   {"layers first and last share parameter 'first.weight'",
                    "cannot be computed again (parallel.recompute)", "keep activations"});
  EXPECT_NO_THROW(check_recomputed(Net()));
}

// Weights that are views of one memory, from a first row on.
struct Views : SequentialModel {
  explicit Views(int64_t second) {
    const torch::Tensor memory = torch::rand({4, 2});
    for (const std::string name : {"first", "second"}) {
      const int64_t row = name == "first" ? 0 : second;
      const auto module = register_module(name, torch::nn::Linear(2, 2));
      module->weight.set_data(memory.narrow(0, row, 2));
      add_layer(name, module);
    }
  }
};

TEST(ModelPart, CannotShareMemoryWithAnother) {
  for (const int64_t second : {0, 1}) {
    const Views net(second);
    expect_bad_input(
        [&] { check_parts(net, {{0, 1}, {1, 2}}); },
        {"parameter 'first.weight' of layer first and parameter 'second.weight' of layer "
         "second share memory, but would be in parts 0 and 1"});
    EXPECT_EQ(blocks_of(net), (std::vector<Range>{{0, 2}}));
  }
  const Views apart(2);
  EXPECT_NO_THROW(check_parts(apart, {{0, 1}, {1, 2}}));
  EXPECT_EQ(blocks_of(apart), (std::vector<Range>{{0, 1}, {1, 2}}));
}

TEST(ModelPart, MustTrainSomething) {
  const Net net;
  expect_bad_input(
      [&] { check_parts(net, {{0, 2}, {2, 3}, {3, 4}}); },
      {"--split 2,3: part 1 (layer middle.1) has no trained parameters", "--split 1,3 would do"});
}

TEST(ModelPart, MayBeAnyBlocksOfAModel) {
  const Net apart, shared(Net::Ends::shared);
  EXPECT_EQ(blocks_of(apart), (std::vector<Range>{{0, 1}, {1, 3}, {3, 4}}));
  EXPECT_NO_THROW(check_parts(apart, blocks_of(apart)));
  EXPECT_EQ(blocks_of(shared), (std::vector<Range>{{0, 4}}));
}

/// Activations before, between and after layers, of which two neighbours have one weight.
struct Neighbours : SequentialModel {
  Neighbours() {
    const auto shared = register_module("shared", torch::nn::Linear(2, 2));
    const auto call = [](const auto& module) {
      return [module](const Tensors& x) { return Tensors(module->forward(x.only())); };
    };
    const auto relu = [](const Tensors& x) { return Tensors(torch::relu(x.only())); };
    add_layer("flatten", {}, relu);
    add_layer("fc0", register_module("fc0", torch::nn::Linear(2, 2)));
    add_layer("relu0", {}, relu);
    add_layer("fc1", {"shared"}, call(shared));
    add_layer("fc2", {"shared"}, call(shared));
    add_layer("relu2", {}, relu);
    add_layer("fc3", register_module("fc3", torch::nn::Linear(2, 2)));
    add_layer("relu3", {}, relu);
  }
};

TEST(ModelPart, HasNeighboursThatShareWeightsAndWhatTrainsNothingInOneBlock) {
  const Neighbours net;
  EXPECT_EQ(blocks_of(net), (std::vector<Range>{{0, 3}, {3, 6}, {6, 8}}));
  EXPECT_NO_THROW(check_parts(net, blocks_of(net)));
}

struct Forgetful : SequentialModel {
  explicit Forgetful(const std::string& uses) {
    const auto fc = register_module("fc", torch::nn::Linear(2, 2));
    register_buffer("offset", torch::zeros({2}));
    add_layer("fc", {uses}, [fc](const Tensors& x) { return Tensors(fc->forward(x.only())); });
  }
};

TEST(ModelPart, MustNameWhatItUses) {
  expect_bad_input([] { check_uses(Forgetful("fc")); },
                   {"buffer 'offset' belongs to none of the model's layers"});
  expect_bad_input([] { check_uses(Forgetful("fd")); }, {"layer 'fc' says that it uses 'fd'"});
}

struct TwoNames : SequentialModel {
  explicit TwoNames(const std::string& uses) {
    const auto first = register_module("first", torch::nn::Linear(2, 2));
    register_module("second", first);
    add_layer("fc", {uses},
              [first](const Tensors& x) { return Tensors(first->forward(x.only())); });
  }
};

TEST(ModelPart, GoesByTheFirstNameOfATensor) {
  EXPECT_NO_THROW(check_uses(TwoNames("first")));
  expect_bad_input([] { check_uses(TwoNames("second")); },
                   {"'first.weight' belongs to none", "'second.weight', which is the same tensor"});
}

struct Tangled : Model {
  Tensors forward(const Tensors& inputs) override { return inputs; }
};

TEST(ModelPart, NeedsAModelWithLayers) {
  expect_bad_input([] { require_layers(std::make_shared<Tangled>(), "tangled"); },
                   {"'tangled' cannot be divided into stages", "lockstep::SequentialModel"});
}

struct Results {
  torch::Tensor output, input_gradient, running_mean;
  std::vector<torch::Tensor> gradients;
};

Results results_of(Activations activations) {
  const auto net = std::make_shared<Net>();
  const ModelPart part(net, {0, 4}, activations);
  const auto x = torch::arange(48, torch::kFloat).view({8, 6}).sin().requires_grad_();
  torch::manual_seed(3);
  const auto y = part.forward(x).only();
  y.pow(2).sum().backward();
  Results results{y, x.grad(), net->named_buffers()["middle.0.running_mean"].clone(), {}};
  for (const auto& parameter : net->parameters()) results.gradients.push_back(parameter.grad());
  return results;
}

TEST(Recompute, GivesTheSameBitsOfOutputsGradientsAndBuffers) {
  const Results kept = results_of(Activations::kept), again = results_of(Activations::recomputed);
  EXPECT_TRUE(again.output.equal(kept.output));
  EXPECT_TRUE(again.input_gradient.equal(kept.input_gradient));
  EXPECT_TRUE(again.running_mean.equal(kept.running_mean));
  for (size_t i = 0; i < kept.gradients.size(); ++i)
    EXPECT_TRUE(again.gradients[i].equal(kept.gradients[i])) << i;
}

// A layer that computes something else if it knows that no gradient is needed.
struct Chooser : SequentialModel {
  Chooser() {
    torch::manual_seed(1);
    add_layer("scale", {}, [](const Tensors& x) { return Tensors(x.only() * 2); });
    const auto fc = register_module("fc", torch::nn::Linear(6, 6));
    add_layer("fc", {"fc"}, [fc, this](const Tensors& x) {
      needed.push_back(torch::GradMode::is_enabled());
      of_inputs.push_back(x.only().requires_grad());
      return Tensors(fc->forward(x.only()));
    });
    add_layer("tanh", {}, [this](const Tensors& x) {
      needed.push_back(torch::GradMode::is_enabled());
      of_inputs.push_back(x.only().requires_grad());
      return Tensors(x.only().tanh());
    });
  }
  std::vector<bool> needed, of_inputs;
};

TEST(Recompute, TellsLayersWhetherGradientsAreNeededAsWithoutIt) {
  const auto net = std::make_shared<Chooser>();
  const ModelPart part(net, {0, 3}, Activations::recomputed);
  part.forward(torch::ones({2, 6})).only().sum().backward();
  EXPECT_EQ(net->needed, (std::vector<bool>{true, true, true, true}));
  EXPECT_EQ(net->of_inputs, (std::vector<bool>{false, true, true, false}));  // forwards, backwards
}

struct InPlace : SequentialModel {
  InPlace() {
    const auto fc = register_module("fc", torch::nn::Linear(2, 2));
    add_layer("fc", fc);
    add_layer("relu", {}, [](const Tensors& x) { return Tensors(x.only().relu_()); });
  }
};

TEST(Recompute, RefusesALayerThatChangesItsInput) {
  const ModelPart part(std::make_shared<InPlace>(), {0, 2}, Activations::recomputed);
  expect_bad_input([&] { part.forward(torch::ones({1, 2})); },
                   {"layer 'relu' changes its input in place"});
}

TEST(Generator, GoesOnFromItsState) {
  const at::Tensor state = generator_state();
  const auto once = torch::rand({3});
  set_generator_state(state);
  EXPECT_TRUE(torch::rand({3}).equal(once));
}

}  // namespace
}  // namespace lockstep::parallel
