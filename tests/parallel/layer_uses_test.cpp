// What becomes of a layer that uses something of the model which it does not list.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "expect_error.h"
#include "lockstep/pipeline.h"
#include "parallel/model_part.h"
#include "parallel/pipelines.h"

namespace lockstep::parallel {
namespace {

/// Without an operator of LibTorch that is given the weight.
struct Scaled : torch::autograd::Function<Scaled> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& weight) {
    context->saved_data["factor"] = static_cast<double>(weight.data_ptr<float>()[0]);
    return x * context->saved_data["factor"].toDouble();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0] * context->saved_data["factor"].toDouble(), gradients[0].sum().view({1})};
  }
};

/// Three layers, of which the last uses something of the first one's without listing it.
struct Borrower : SequentialModel {
  enum class What { nothing, module, frozen, buffer, own_function, passed_on, in_place };

  explicit Borrower(What what) {
    torch::manual_seed(1);
    const auto first = register_module("first", torch::nn::Linear(6, 6));
    const auto scale = register_parameter("scale", torch::full({1}, 2.0));
    const auto frozen = register_parameter("frozen", torch::ones({6}), /*requires_grad=*/false);
    const auto offset = register_buffer("offset", torch::ones({6}));
    const auto last = register_module("last", torch::nn::Linear(6, 3));
    add_layer("first", {"first", "scale", "frozen", "offset"}, [=](const Tensors& inputs) {
      const torch::Tensor x = first->forward(inputs["x"]) * scale * frozen + offset;
      return Tensors{{"x", x}, {"scale", scale}};
    });
    add_layer("relu", {}, [=](const Tensors& inputs) {
      torch::Tensor x = inputs["x"].view({-1, 6});
      return Tensors{{"x", what == What::in_place ? x.relu_() : x.relu()},
                     {"scale", inputs["scale"]}};
    });
    add_layer("last", {"last"}, [=](const Tensors& inputs) {
      torch::Tensor x = inputs["x"];
      if (what == What::module) x = first->forward(x);
      if (what == What::frozen) x = x * frozen;
      if (what == What::buffer) x = torch::cat({x, offset.view({1, 6})});
      if (what == What::own_function) x = Scaled::apply(x, first->weight);
      if (what == What::passed_on) x = x * inputs["scale"];
      return Tensors(last->forward(x));
    });
  }
};

Tensors inputs() {
  return {{"x", pipeline_inputs()}};
}

void expect_forward_refused(Borrower::What what, const std::string& name) {
  for (const bool records : {true, false})
    for (const Activations activations : {Activations::kept, Activations::recomputed}) {
      const torch::AutoGradMode mode(records);
      const ModelPart part(std::make_shared<Borrower>(what), {0, 3}, activations);
      expect_bad_input([&] { part.forward(inputs()); }, {"layer 'last' uses " + name, "`uses`"});
    }
}

TEST(LayerUses, ThatAreNotListedAreRefusedByLayerAndName) {
  using What = Borrower::What;
  expect_forward_refused(What::module, "parameter 'first.weight'");
  expect_forward_refused(What::frozen, "parameter 'frozen'");
  expect_forward_refused(What::buffer, "buffer 'offset'");
}

TEST(LayerUses, ByAFunctionOfTheModelsOwnAreRefused) {
  const ModelPart part(std::make_shared<Borrower>(Borrower::What::own_function), {0, 3});
  expect_bad_input([&] { part.forward(inputs()); }, {"layer 'last' uses parameter 'first.weight'"});
}

TEST(LayerUses, OfWhatALayerIsGivenAsATensorAreAllowed) {
  for (const auto what : {Borrower::What::nothing, Borrower::What::passed_on})
    for (const Activations activations : {Activations::kept, Activations::recomputed}) {
      const ModelPart part(std::make_shared<Borrower>(what), {0, 3}, activations);
      for (int i = 0; i < 2; ++i) EXPECT_NO_THROW(part.forward(inputs()));
    }
}

TEST(LayerUses, OfTheLayersBeforeAreNotThoseOfALayerThatChangesItsInput) {
  const ModelPart part(std::make_shared<Borrower>(Borrower::What::in_place), {0, 3});
  EXPECT_NO_THROW(part.forward(inputs()));
}

TEST(LayerUses, OfReleasedMemoryAreNamedInsteadOfTheShapesThatDoNotMatch) {
  const auto model = std::make_shared<Borrower>(Borrower::What::module);
  const ModelPart part(model, {2, 3});
  release_others(*model, {part});
  expect_bad_input([&] { part.forward(Tensors{{"x", torch::ones({2, 6})}}); },
                   {"layer 'last' uses parameter 'first.weight'"});
}

void step_of(const std::shared_ptr<SequentialModel>& model, const World& world,
             const PipelineOptions& options) {
  Pipeline pipeline(model, world, options);
  pipeline.step(inputs(), Tensors(pipeline_labels()),
                [](const Tensors& outputs, const Tensors& labels) {
                  return cross_entropy(outputs.only(), labels.only());
                });
}

TEST(LayerUses, InAPipelineAreRefusedOnAnyNumberOfWorkersAndStages) {
  const std::vector<PipelineOptions> all = {{.stages = 1},
                                            {.stages = 2},
                                            {.stages = 2, .example = inputs()},
                                            {.stages = 1, .recompute = true}};
  for (const PipelineOptions& options : all)
    as_workers(1, [&](World world) {
      expect_bad_input(
          [&] { step_of(std::make_shared<Borrower>(Borrower::What::module), world, options); },
          {"layer 'last' uses parameter 'first.weight'"});
    });
  as_workers(2, [](World world) {
    const std::string message = message_of<Error>(
        [&] { step_of(std::make_shared<Borrower>(Borrower::What::module), world, {}); });
    EXPECT_TRUE(has(message, "layer 'last' uses parameter 'first.weight'")) << message;
  });
}

/// From the second step on its last layer uses the first one's weights.
struct LateBorrower : SequentialModel {
  LateBorrower() {
    const auto first = register_module("first", torch::nn::Linear(6, 6));
    const auto last = register_module("last", torch::nn::Linear(6, 3));
    add_layer("first", first);
    add_layer("last", {"last"}, [=, this](const Tensors& x) {
      return Tensors(last->forward(++calls_ > 8 ? first->forward(x.only()) : x.only()));
    });
  }
  int calls_ = 0;
};

TEST(LayerUses, InALaterStepAreRefusedInTheBackwardPass) {
  as_workers(1, [](World world) {
    Pipeline pipeline(std::make_shared<LateBorrower>(), world, {.stages = 2});
    const auto step = [&] { pipeline.step(pipeline_inputs(), pipeline_labels(), cross_entropy); };
    step();
    expect_bad_input(step, {"parameter 'first.", "backward pass of layers that do not list it"});
  });
}

struct Unlisted : SequentialModel {
  Unlisted() {
    const auto first = register_module("first", torch::nn::Linear(6, 6));
    add_layer("first", {}, [=](const Tensors& x) { return Tensors(first->forward(x.only())); });
    add_layer("last", register_module("last", torch::nn::Linear(6, 3)));
  }
};

TEST(LayerUses, OfParametersThatBelongToNoLayerAreRefusedBeforeTheModelIsDivided) {
  for (const int workers : {1, 2})
    as_workers(workers, [](World world) {
      for (const int stages : {1, 2})
        if (world.size() == 1 || stages == 2)
          expect_bad_input(
              [&] { Pipeline(std::make_shared<Unlisted>(), world, {.stages = stages}); },
              {"parameter 'first.weight' belongs to none of the model's layers", "`uses`"});
    });
}

}  // namespace
}  // namespace lockstep::parallel
