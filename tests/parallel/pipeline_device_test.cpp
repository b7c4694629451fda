// lockstep::Pipeline on virtual devices of one worker: synchronous ones in parallel_test,
// asynchronous ones in asynchronous_ddp_test.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

#include "expect_error.h"
#include "lockstep/error.h"
#include "parallel/devices.h"
#include "parallel/pipelines.h"

namespace lockstep {
namespace {

// With dropout: its random numbers go from stage to stage.
torch::nn::Sequential dropping_net() {
  return seeded(1, [] {
    return torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::BatchNorm1d(16),
                                 torch::nn::Dropout(0.3), torch::nn::Linear(16, 12),
                                 torch::nn::Dropout(0.3), torch::nn::Linear(12, 3));
  });
}

PipelineResult trained_on(const PipelineOptions& options) {
  PipelineResult result;
  as_workers(1, [&](World world) { result = trained_by_pipeline(dropping_net(), world, options); });
  return result;
}

TEST(PipelineOnDevices, HasTheBitsOfTheCpuWithAnySchedule) {
  const PipelineResult cpu = trained_on({.micro_batches = 4});
  for (const std::string schedule : {"sequential", "gpipe", "1f1b"})
    expect_same_bits(
        trained_on({.micro_batches = 4,
                    .schedule = schedule,
                    .devices = {virtual_device(0), virtual_device(1), virtual_device(2)}}),
        cpu, schedule);
  expect_same_bits(trained_on({.micro_batches = 4,
                               .recompute = true,
                               .devices = {virtual_device(0), virtual_device(1)}}),
                   cpu, "recompute");
  expect_same_bits(trained_on({.stages = 3, .micro_batches = 4, .devices = {virtual_device(3)}}),
                   cpu, "all stages on one device");
}

TEST(PipelineOnDevices, HasEachStageOnItsDeviceAndOutputsOnTheHost) {
  as_workers(1, [](World world) {
    Pipeline pipeline(dropping_net(), world,
                      {.split = "3", .devices = {virtual_device(2), virtual_device(1)}});
    EXPECT_EQ(pipeline.parameters().front().device(), virtual_device(2));
    EXPECT_EQ(pipeline.parameters().back().device(), virtual_device(1));
    EXPECT_TRUE(pipeline.forward(pipeline_inputs()).device().is_cpu());
  });
}

// Three convolutions, which take the time, and four dense layers, which have the parameters: 4 MiB
// each, and five times that with gradients and an optimizer.
torch::nn::Sequential slow_then_large_net() {
  const auto convolution = [](int64_t from) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, 64, 3).padding(1));
  };
  torch::nn::Sequential net(convolution(3), convolution(64), convolution(64),
                            torch::nn::MaxPool2d(8), torch::nn::Flatten());
  for (int i = 0; i < 4; ++i) net->push_back(torch::nn::Linear(1024, 1024));
  net->push_back(torch::nn::Linear(1024, 3));
  return net;
}

TEST(PipelineOnDevices, DividesAModelSoThatStagesFitTheirDevices) {
  const auto first_of_second_stage = [](const PipelineOptions& options) {
    int layer = 0;
    as_workers(1, [&](World world) {
      layer = std::stoi(Pipeline(slow_then_large_net(), world, options).split());
    });
    return layer;
  };
  PipelineOptions options{.stages = 2,
                          .micro_batches = 2,
                          .example = Tensors(torch::ones({8, 3, 32, 32})),
                          .devices = {virtual_device(0)}};
  EXPECT_LT(first_of_second_stage(options), 5);  // on one device, whose memory they share
  options.devices.push_back(virtual_device(1));
  EXPECT_GT(first_of_second_stage(options), 5);
}

TEST(PipelineOnDevices, SaysWhatNeedsLessMemory) {
  as_workers(1, [](World world) {
    Pipeline pipeline(
        dropping_net(), world,
        {.micro_batches = 1, .split = "3", .devices = {virtual_device(0), virtual_device(1)}});
    const int64_t samples = kDeviceBytes / 64;
    try {
      pipeline.step(torch::ones({samples, 6}), torch::zeros({samples}, torch::kLong),
                    cross_entropy);
      FAIL() << "it fits";
    } catch (const OutOfMemory& error) {
      EXPECT_EQ(error.device(), "virtual:0");
      EXPECT_NE(std::string(error.what())
                    .find("this was stage 0 (layers 0 to 2), in the forward "
                          "pass of a micro-batch of 1048576 samples: more PipelineOptions"),
                std::string::npos)
          << error.what();
    }
  });
}

TEST(PipelineOnDevices, GivesEachWorkerADeviceOfItsOwn) {
  PipelineResult of_first;
  as_workers(2, [&](World world) {
    PipelineResult own = trained_by_pipeline(
        norm_net(1), world, {.micro_batches = 4, .devices = {virtual_device(world.rank())}});
    if (world.rank() == 0) of_first = std::move(own);
  });
  PipelineResult cpu;
  as_workers(
      1, [&](World world) { cpu = trained_by_pipeline(norm_net(1), world, {.micro_batches = 4}); });
  expect_same_bits(of_first, cpu, "two workers");
}

// Passes on four tensors that all depend on the first of them.
struct FourTensors : SequentialModel {
  FourTensors() {
    const auto dense = [&](const std::string& name, int64_t to) {
      return register_module(name, torch::nn::Linear(name == "a" ? 6 : 32, to));
    };
    const auto a = dense("a", 32), q = dense("q", 32), k = dense("k", 32), v = dense("v", 32);
    const auto z = dense("z", 3);
    add_layer("first", {"a", "q", "k", "v"}, [=](const Tensors& inputs) {
      const torch::Tensor x = torch::relu(a->forward(inputs.only()));
      return Tensors{{"x", x}, {"q", q->forward(x)}, {"k", k->forward(x)}, {"v", v->forward(x)}};
    });
    add_layer("second", {"z"}, [=](const Tensors& t) {
      const torch::Tensor weights = torch::softmax(torch::matmul(t["q"], t["k"].t()), 1);
      return Tensors(z->forward(t["x"] + torch::matmul(weights, t["v"])));
    });
  }
};

TEST(PipelineOnDevices, AddsGradientsOfSeveralOutputsInOneOrder) {
  const auto trained = [](const PipelineOptions& options) {
    PipelineResult result;
    as_workers(1, [&](World world) {
      result = trained_by_pipeline(seeded(1, [] { return std::make_shared<FourTensors>(); }), world,
                                   options);
    });
    return result;
  };
  const PipelineResult cpu = trained({.micro_batches = 8});
  for (int run = 0; run < 20; ++run) {
    expect_same_bits(trained({.stages = 2, .micro_batches = 8, .devices = {virtual_device(0)}}),
                     cpu, "one device");
    expect_same_bits(
        trained({.micro_batches = 8, .devices = {virtual_device(0), virtual_device(1)}}), cpu,
        "two devices");
  }
}

TEST(PipelineOnDevices, RefusesALayerThatChangesTheModelsInput) {
  torch::nn::Sequential net(torch::nn::Functional([](const torch::Tensor& x) {
                              return torch::Tensor(x).mul_(0.5).sin();
                            }),
                            torch::nn::Linear(6, 16), torch::nn::Linear(16, 3));
  as_workers(1, [&](World world) {
    Pipeline pipeline(
        net, world,
        {.micro_batches = 4, .split = "2", .devices = {virtual_device(0), virtual_device(1)}});
    expect_bad_input([&] { pipeline.step(pipeline_inputs(), pipeline_labels(), cross_entropy); },
                     {"layers 0 to 1", "the model's input in place"});
  });
}

}  // namespace
}  // namespace lockstep
