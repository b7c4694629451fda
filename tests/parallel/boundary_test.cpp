// What the next part of a model gets from the one before it is what it would have without a
// boundary between them: with lockstep::Pipeline between stages and workers, and between recomputed
// layers.
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "expect_error.h"
#include "lockstep/error.h"
#include "parallel/pipelines.h"

namespace lockstep {
namespace {

using torch::Tensor;

// Two layers with dense modules and a buffer, which compute what a test says.
struct TwoLayers : SequentialModel {
  using Compute = std::function<Tensors(TwoLayers&, const Tensors&)>;

  TwoLayers(const Compute& first, const Compute& second) {
    for (torch::nn::Linear* each : {&a, &b, &c, &d}) *each = torch::nn::Linear(16, 16);
    a = register_module("a", torch::nn::Linear(6, 16));
    register_module("b", b);
    register_module("c", c);
    register_module("d", d);
    convolution = register_module("convolution",
                                  torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 16, 3).padding(1)));
    last = register_module("last", torch::nn::Linear(16, 3));
    mean = register_buffer("mean", torch::zeros({16}));
    add_layer("first", {"a", "b", "mean"},
              [this, first](const Tensors& x) { return first(*this, x); });
    add_layer("second", {"c", "d", "convolution", "last"},
              [this, second](const Tensors& x) { return second(*this, x); });
  }
  torch::nn::Linear a{nullptr}, b{nullptr}, c{nullptr}, d{nullptr}, last{nullptr};
  torch::nn::Conv2d convolution{nullptr};
  Tensor mean;
};

struct Cut {
  TwoLayers::Compute first, second;
};

Tensor ends(TwoLayers& net, const Tensor& x) {
  return net.last(torch::tanh(x));
}

PipelineResult trained(const Cut& cut, int workers, PipelineOptions options) {
  options.micro_batches = 4;
  PipelineResult of_first;
  as_workers(workers, [&](World world) {
    const auto net = seeded(1, [&] { return std::make_shared<TwoLayers>(cut.first, cut.second); });
    PipelineResult own = trained_by_pipeline(net, world, options);
    if (world.rank() == 0) of_first = std::move(own);
  });
  return of_first;
}

struct Way {
  std::string name;
  int workers;
  PipelineOptions options;
};

const std::vector<Way> kStages = {
    {"two stages", 1, {.stages = 2, .split = "1"}},
    {"two stages with gpipe", 1, {.stages = 2, .schedule = "gpipe", .split = "1"}},
    {"two workers", 2, {.split = "1"}},
    {"two workers with gpipe", 2, {.schedule = "gpipe", .split = "1"}}};
const Way kRecompute = {"recompute", 1, {.recompute = true}};

enum class Recomputed { yes, no };

void expect_bits_of_one_stage(const Cut& cut, Recomputed recomputed = Recomputed::yes) {
  const PipelineResult alone = trained(cut, 1, {});
  std::vector<Way> ways = kStages;
  if (recomputed == Recomputed::yes) ways.push_back(kRecompute);
  for (const Way& way : ways)
    expect_same_bits(trained(cut, way.workers, way.options), alone, way.name);
}

void expect_refused(const Cut& cut, const Way& way, std::initializer_list<std::string> parts) {
  const auto net = [&] {
    return seeded(1, [&] { return std::make_shared<TwoLayers>(cut.first, cut.second); });
  };
  const std::vector<std::string> errors = errors_of_workers(way.workers, [&](World world) {
    PipelineOptions options = way.options;
    options.micro_batches = 4;
    trained_by_pipeline(net(), world, options);
  });
  const std::string message = fmt::format("{}", fmt::join(errors, " / "));
  for (const std::string& part : parts) EXPECT_TRUE(has(message, part)) << way.name << message;
}

TEST(Boundary, OfOneTensorWithTwoNamesPassesItOnce) {
  expect_bits_of_one_stage(
      {[](TwoLayers& net, const Tensors& t) {
         const Tensor x = torch::relu(net.a(t.only()));
         return Tensors{{"x", x}, {"skip", x}};
       },
       [](TwoLayers& net, const Tensors& t) {
         const Tensor x = t["x"];
         const Tensor weights = torch::softmax(torch::matmul(net.c(x), net.d(x).t()), 1);
         return Tensors(ends(net, torch::matmul(weights, torch::sin(x)) + t["skip"]));
       }});
}

TEST(Boundary, OfOneTensorWithTwoNamesMayBeFollowedByAChangeInPlace) {
  expect_bits_of_one_stage(
      {[](TwoLayers& net, const Tensors& t) {
         const Tensor x = net.a(t.only());
         return Tensors{{"x", x}, {"skip", x}};
       },
       [](TwoLayers& net, const Tensors& t) {
         Tensor(t["x"]).relu_();
         return Tensors(ends(net, net.c(t["x"]) + net.d(torch::sin(t["skip"]))));
       }},
      Recomputed::no);
}

Tensors with_a_view(TwoLayers& net, const Tensors& t) {
  const Tensor x = net.b(net.a(t.only()));
  return {{"x", x}, {"halves", x.view({-1, 2, 8})}};
}

TEST(Boundary, OfTensorsThatShareMemoryPassesTheirValues) {
  expect_bits_of_one_stage({with_a_view, [](TwoLayers& net, const Tensors& t) {
                              return Tensors(
                                  ends(net, net.c(t["x"]) + net.d(t["halves"].flatten(1))));
                            }});
}

TEST(Boundary, RefusesAChangeInPlaceOfATensorThatSharesMemory) {
  const Cut cut = {with_a_view, [](TwoLayers& net, const Tensors& t) {
                     Tensor(t["x"]).relu_();
                     return Tensors(ends(net, net.c(t["x"]) + net.d(t["halves"].flatten(1))));
                   }};
  for (const Way& way : kStages)
    expect_refused(cut, way, {"layer second", "input 'x' in place", "shares memory", "clone"});
}

Tensors with_its_mean(TwoLayers& net, const Tensors& t) {
  const Tensor x = net.a(t.only());
  const torch::NoGradGuard no_grad;
  net.mean.mul_(0.5).add_(x.mean(0), 0.5);
  return {{"x", x}, {"mean", net.mean}};
}

TEST(Boundary, PassesABufferAsItIsInThisMicroBatch) {
  expect_bits_of_one_stage(
      {with_its_mean,
       [](TwoLayers& net, const Tensors& t) {
         return Tensors(ends(net, net.d(net.c(torch::relu(t["x"] * t["mean"])))));
       }},
      Recomputed::no);
}

TEST(Boundary, RefusesAChangeInPlaceOfABufferOfTheLayerBefore) {
  const Cut cut = {with_its_mean, [](TwoLayers& net, const Tensors& t) {
                     Tensor(t["mean"]).mul_(2);
                     return Tensors(ends(net, t["x"] - t["mean"]));
                   }};
  for (const Way& way : kStages)
    expect_refused(cut, way, {"layer second", "input 'mean' in place", "shares memory"});
}

TEST(Boundary, PassesSlicesWithTheStridesThatTheyHave) {
  expect_bits_of_one_stage(
      {[](TwoLayers& net, const Tensors& t) {
         const Tensor x = net.b(torch::relu(net.a(t.only()))).view({-1, 4, 2, 2});
         return Tensors(x.contiguous(torch::MemoryFormat::ChannelsLast).narrow(1, 1, 2));
       },
       [](TwoLayers& net, const Tensors& t) {
         const Tensor x = torch::layer_norm(t.only(), {2, 2, 2});
         return Tensors(ends(net, net.convolution(x).mean({2, 3})));
       }});
}

TEST(Boundary, CallsHooksOfTensorsOnce) {
  expect_bits_of_one_stage(
      {[](TwoLayers& net, const Tensors& t) { return Tensors(net.a(t.only())); },
       [](TwoLayers& net, const Tensors& t) {
         const Tensor x = t.only();
         if (x.requires_grad()) x.register_hook([](const Tensor& g) { return g * 0.5; });
         return Tensors(ends(net, net.c(torch::relu(x))));
       }});
}

TEST(Boundary, PassesUndefinedTensors) {
  const Cut cut = {[](TwoLayers& net, const Tensors& t) {
                     return Tensors{{"none", Tensor()}, {"x", net.a(t.only())}};
                   },
                   [](TwoLayers& net, const Tensors& t) {
                     EXPECT_FALSE(t["none"].defined());
                     return Tensors(ends(net, net.c(t["x"])));
                   }};
  expect_bits_of_one_stage(cut);
  as_workers(1, [&](World world) {
    const auto net = std::make_shared<TwoLayers>(cut.first, cut.second);
    EXPECT_EQ(Pipeline(net, world, {.stages = 2, .micro_batches = 4, .example = pipeline_inputs()})
                  .split(),
              "1");
  });
}

const Cut kNoisy = {
    [](TwoLayers& net, const Tensors& t) {
      if (net.is_training()) Tensor(t.only()).add_(0.1);
      return Tensors(torch::relu(net.a(torch::sin(t.only()))));
    },
    [](TwoLayers& net, const Tensors& t) { return Tensors(ends(net, net.d(net.c(t.only())))); }};

TEST(Boundary, IsNoObstacleToALayerThatChangesTheModelsInputOnOneDevice) {
  const PipelineResult alone = trained(kNoisy, 1, {});
  expect_same_bits(trained(kNoisy, 1, {.stages = 2, .schedule = "gpipe", .split = "1"}), alone,
                   "two stages");
}

TEST(Boundary, BetweenWorkersRefusesALayerThatChangesTheModelsInput) {
  expect_refused(kNoisy, {"two workers", 2, {.split = "1"}},
                 {"layer first", "changes the model's input in place", "clone"});
}

}  // namespace
}  // namespace lockstep
