// What measuring layers says, and what it leaves as it was: on synchronous virtual devices in
// parallel_test, on asynchronous ones in asynchronous_ddp_test.
#include "parallel/layer_costs.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "parallel/devices.h"
#include "parallel/generator.h"
#include "parallel/pipelines.h"
#include "parallel/sequence.h"

namespace lockstep::parallel {
namespace {

constexpr int64_t kSamples = 64, kWide = 128;

torch::nn::Sequential wide_net() {
  return seeded(1, [] {
    return torch::nn::Sequential(torch::nn::Linear(6, kWide), torch::nn::BatchNorm1d(kWide),
                                 torch::nn::Dropout(0.5), torch::nn::Linear(kWide, 3));
  });
}

std::vector<pipeline::LayerCost> measured(torch::nn::Sequential net, c10::Device device) {
  return measure_layers(sequence_of(net.ptr()), torch::ones({kSamples, 6}).to(device),
                        Activations::kept);
}

TEST(LayerCosts, AreMeasuredWithoutChangingWhatFollows) {
  torch::nn::Sequential net = wide_net();
  net[1]->as<torch::nn::BatchNorm1d>()->eval();
  const torch::Tensor mean = net->named_buffers()["1.running_mean"].clone();
  const torch::Tensor random_numbers = generator_state();
  measured(net, torch::kCPU);
  EXPECT_FALSE(net[1]->as<torch::nn::BatchNorm1d>()->is_training());
  EXPECT_TRUE(net[2]->as<torch::nn::Dropout>()->is_training());
  EXPECT_TRUE(net->named_buffers()["1.running_mean"].equal(mean));
  EXPECT_TRUE(generator_state().equal(random_numbers));
}

TEST(LayerCosts, CountTheMemoryOfTheModelsDevice) {
  torch::nn::Sequential net = wide_net();
  const torch::Device device = virtual_device(0);
  net->to(device);
  const std::vector<pipeline::LayerCost> costs = measured(net, device);
  const int64_t outputs = kSamples * kWide * 4;
  EXPECT_GE(costs[0].held, outputs);
  EXPECT_GE(costs[1].held, outputs);
  EXPECT_GE(costs[1].working, outputs);  // the gradient of its inputs
  EXPECT_LT(costs[3].held, outputs);
}

}  // namespace
}  // namespace lockstep::parallel
