#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

#include "lockstep/pipeline.h"
#include "parallel/worlds.h"

namespace lockstep {

inline constexpr int64_t kPipelineSamples = 16;

inline torch::Tensor pipeline_inputs() {
  return torch::arange(kPipelineSamples * 6, torch::kFloat).view({kPipelineSamples, 6}).sin();
}
inline torch::Tensor pipeline_labels() {
  return torch::arange(kPipelineSamples) % 3;
}
inline torch::Tensor cross_entropy(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::cross_entropy_loss(output, target);
}

/// Six layers, of which three have parameters.
inline torch::nn::Sequential plain_net(uint64_t seed) {
  return seeded(seed, [] {
    return torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::ReLU(),
                                 torch::nn::Linear(16, 12), torch::nn::Tanh(),
                                 torch::nn::Linear(12, 3), torch::nn::Identity());
  });
}
/// The same with BatchNorm.
inline torch::nn::Sequential norm_net(uint64_t seed) {
  return seeded(seed, [] {
    return torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::BatchNorm1d(16),
                                 torch::nn::ReLU(), torch::nn::Linear(16, 12), torch::nn::Tanh(),
                                 torch::nn::Linear(12, 3));
  });
}

/// What a training ends with.
struct PipelineResult {
  std::vector<double> losses;
  Tensors state;
};

/// Three steps, each on this pipeline's share of the samples, and the model after them.
template <typename Net>
PipelineResult trained_by_pipeline(const Net& net, const World& world,
                                   const PipelineOptions& options) {
  Pipeline pipeline(net, world, options);
  torch::optim::SGD optimizer(pipeline.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  const int64_t own = kPipelineSamples / pipeline.replicas().size();
  const int64_t begin = own * pipeline.replicas().rank();
  PipelineResult result;
  for (int step = 0; step < 3; ++step) {
    result.losses.push_back(pipeline.step(pipeline_inputs().narrow(0, begin, own),
                                          pipeline_labels().narrow(0, begin, own), cross_entropy));
    optimizer.step();
  }
  result.state = pipeline.state();
  return result;
}

inline void expect_same_bits(const PipelineResult& one, const PipelineResult& other,
                             const std::string& what) {
  EXPECT_EQ(one.losses, other.losses) << what;
  ASSERT_GT(other.state.size(), 0) << what;
  ASSERT_EQ(one.state.size(), other.state.size()) << what;
  for (const auto& [name, tensor] : one.state)
    EXPECT_TRUE(tensor.equal(other.state[name])) << what << ": " << name;
}

}  // namespace lockstep
