#pragma once

#include <torch/torch.h>

namespace lockstep {

/// What a user would bring: an embedding tied to the output, a recurrent network, attention that
/// pools what it gives, an unused branch, a frozen parameter, float64 beside float32, integer
/// buffers. Gives a score for each of 20 tokens.
struct OddModelImpl : torch::nn::Module {
  OddModelImpl() {
    embedding = register_module("embedding", torch::nn::Embedding(20, 8));
    lstm = register_module(
        "lstm", torch::nn::LSTM(torch::nn::LSTMOptions(8, 8).num_layers(2).batch_first(true)));
    attention = register_module("attention", torch::nn::MultiheadAttention(8, 2));
    unused = register_module("unused", torch::nn::Linear(8, 8));
    frozen = register_parameter("frozen", torch::randn({8}), false);
    scale = register_parameter("scale", torch::ones({1}, torch::kDouble));
    calls = register_buffer("calls", torch::zeros({1}, torch::kLong));
    largest = register_buffer("largest", torch::zeros({1}, torch::kInt));
  }
  torch::Tensor forward(const torch::Tensor& tokens) {
    calls += 1;
    largest.copy_(torch::maximum(largest, tokens.max()));
    const torch::Tensor x = std::get<0>(lstm(embedding(tokens))).transpose(0, 1);
    const torch::Tensor y = std::get<0>(attention(x.mean(0, true), x, x)).squeeze(0) + frozen;
    const torch::Tensor scores = y.matmul(embedding->weight.t());
    return (scores.to(torch::kDouble) * scale).to(torch::kFloat);
  }
  torch::nn::Embedding embedding{nullptr};
  torch::nn::LSTM lstm{nullptr};
  torch::nn::MultiheadAttention attention{nullptr};
  torch::nn::Linear unused{nullptr};
  torch::Tensor frozen, scale, calls, largest;
};
TORCH_MODULE(OddModel);

}  // namespace lockstep
