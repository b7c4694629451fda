// lockstep::Pipeline on virtual devices of one worker: synchronous ones in parallel_test,
// asynchronous ones in asynchronous_ddp_test.
#include <gtest/gtest.h>
#include <torch/torch.h>

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

}  // namespace
}  // namespace lockstep
