#include <gtest/gtest.h>

#include <thread>

#include "devices.h"
#include "odd_model.h"

namespace lockstep {
namespace {

using torch::Tensor;
namespace nn = torch::nn;

// Devices are made before the first backward pass, whichever test runs first.
class Training : public ::testing::Test {
 protected:
  void SetUp() override { device(0); }
};

struct Block : nn::Module {
  Block() {
    conv1 = register_module("conv1", nn::Conv2d(nn::Conv2dOptions(8, 8, 3).padding(1).bias(false)));
    bn1 = register_module("bn1", nn::BatchNorm2d(8));
    conv2 = register_module("conv2", nn::Conv2d(nn::Conv2dOptions(8, 8, 3).padding(1)));
  }
  Tensor forward(const Tensor& x) { return torch::relu(x + conv2(torch::relu(bn1(conv1(x))))); }
  nn::Conv2d conv1{nullptr}, conv2{nullptr};
  nn::BatchNorm2d bn1{nullptr};
};

struct Residual : nn::Module {
  Residual() {
    stem = register_module("stem", nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1)));
    block = register_module("block", std::make_shared<Block>());
    fc = register_module("fc", nn::Linear(8, 4));
  }
  Tensor forward(Tensor x) {
    x = torch::max_pool2d(block->forward(stem(x)), 2);
    return fc(torch::dropout(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1), 0.2, is_training()));
  }
  nn::Conv2d stem{nullptr};
  std::shared_ptr<Block> block;
  nn::Linear fc{nullptr};
};

template <typename Net, typename Optimizer, typename Options>
std::vector<Tensor> trained(torch::Device on, const Tensor& x, const Tensor& y, int steps,
                            const Options& options) {
  torch::manual_seed(1);
  const auto net = std::make_shared<Net>();
  net->to(on);
  Optimizer optimizer(net->parameters(), options);
  std::vector<Tensor> losses;
  for (int i = 0; i < steps; ++i) {
    torch::manual_seed(static_cast<uint64_t>(i));
    optimizer.zero_grad();
    const Tensor loss = torch::cross_entropy_loss(net->forward(x.to(on)), y.to(on));
    loss.backward();
    optimizer.step();
    losses.push_back(loss.detach().cpu());
  }
  std::vector<Tensor> state = {torch::stack(losses)};
  for (const Tensor& tensor : net->parameters()) state.push_back(tensor.detach().cpu());
  for (const Tensor& tensor : net->buffers()) state.push_back(tensor.cpu());
  return state;
}

void expect_equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << "tensor " << i;
}

TEST_F(Training, OfAResidualNetGivesTheBitsOfTheCpu) {
  torch::manual_seed(7);
  const Tensor x = torch::randn({4, 3, 8, 8}), y = torch::randint(4, {4});
  const auto options = torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-3);
  const auto on_cpu = trained<Residual, torch::optim::SGD>(torch::kCPU, x, y, 5, options);
  expect_equal(trained<Residual, torch::optim::SGD>(device(0), x, y, 5, options), on_cpu);
  expect_equal(trained<Residual, torch::optim::SGD>(device(2), x, y, 5, options), on_cpu);
}

TEST_F(Training, OfAnOddModelGivesTheLossesOfTheCpu) {
  const Tensor x = torch::arange(24).remainder(20).view({4, 6}), y = torch::tensor({1, 5, 3, 19});
  const torch::optim::AdamWOptions options(0.01);
  const auto on_cpu = trained<OddModelImpl, torch::optim::AdamW>(torch::kCPU, x, y, 5, options);
  const auto on_device = trained<OddModelImpl, torch::optim::AdamW>(device(1), x, y, 5, options);
  EXPECT_TRUE(on_device[0].allclose(on_cpu[0], 1e-5, 1e-6)) << on_device[0] << on_cpu[0];
}

// All parameters' gradients after a pass over a series.
template <typename Net>
std::vector<Tensor> recurrent_gradients(Net net, torch::Device on) {
  torch::manual_seed(1);
  for (Tensor& parameter : net->parameters()) parameter.data().uniform_(-0.5, 0.5);
  net->to(on);
  const auto [y, state] = net(torch::randn({5, 3, 4}).to(on));
  y.pow(2).sum().backward();
  std::vector<Tensor> all = {y.detach().cpu()};
  for (const Tensor& parameter : net->parameters()) all.push_back(parameter.grad().cpu());
  return all;
}

TEST_F(Training, OfRecurrentNetsGivesTheGradientsOfTheCpu) {
  const auto expect_close = [](const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].allclose(b[i], 1e-4, 1e-5)) << i;
  };
  const nn::LSTMOptions lstm = nn::LSTMOptions(4, 6).num_layers(2);
  expect_close(recurrent_gradients(nn::LSTM(lstm), device(0)),
               recurrent_gradients(nn::LSTM(lstm), torch::kCPU));
  for (const bool bias : {true, false}) {
    const nn::GRUOptions gru = nn::GRUOptions(4, 6).bias(bias);
    expect_close(recurrent_gradients(nn::GRU(gru), device(0)),
                 recurrent_gradients(nn::GRU(gru), torch::kCPU));
  }
}

// LibTorch 2 calls these cells; what they are made of is LibTorch's on the CPU.
TEST_F(Training, ByFusedRecurrentCellsFollowsTheirDefinition) {
  torch::manual_seed(1);
  const Tensor i = torch::randn({3, 8}), h = torch::randn({3, 8}), c = torch::randn({3, 2});
  const auto run = [&](torch::Device on, const auto& cell) {
    std::vector<Tensor> inputs;
    for (const Tensor& tensor : {i, h, c})
      inputs.push_back(tensor.to(on).detach().requires_grad_());
    const auto [hidden, next] = cell(inputs);
    (hidden.pow(2).sum() + next.pow(3).sum()).backward();
    std::vector<Tensor> all = {hidden.detach().cpu(), next.detach().cpu()};
    for (const Tensor& input : inputs) all.push_back(input.grad().cpu());
    return all;
  };
  const auto fused = run(device(1), [](const std::vector<Tensor>& in) {
    const auto [hidden, next, kept] = at::_thnn_fused_lstm_cell(in[0], in[1], in[2], {}, {});
    return std::pair(hidden, next);
  });
  const auto defined = run(torch::kCPU, [](const std::vector<Tensor>& in) {
    const auto gates = (in[0] + in[1]).chunk(4, 1);
    const Tensor next = gates[1].sigmoid() * in[2] + gates[0].sigmoid() * gates[2].tanh();
    return std::pair(gates[3].sigmoid() * next.tanh(), next);
  });
  for (size_t k = 0; k < fused.size(); ++k)
    EXPECT_TRUE(fused[k].allclose(defined[k], 1e-4, 1e-5)) << k;
}

TEST_F(Training, OfTransformerLayersGivesTheBitsOfTheCpu) {
  const auto gradients = [](torch::Device on) {
    torch::manual_seed(1);
    nn::TransformerEncoderLayer layer(nn::TransformerEncoderLayerOptions(16, 2).dropout(0.0));
    layer->to(on);
    const Tensor x = torch::randn({5, 3, 16}).to(on);
    layer(x).pow(2).sum().backward();
    std::vector<Tensor> all;
    for (const Tensor& parameter : layer->parameters()) all.push_back(parameter.grad().cpu());
    return all;
  };
  expect_equal(gradients(device(0)), gradients(torch::kCPU));
}

TEST_F(Training, GoesThroughTwoDevicesInOneBackwardPass) {
  torch::manual_seed(1);
  nn::Linear first(4, 4), second(4, 2);
  const Tensor x = torch::randn({3, 4});
  second(first(x)).sum().backward();
  const Tensor expected = first->weight.grad().clone();
  first->zero_grad(/*set_to_none=*/true);
  second->zero_grad(/*set_to_none=*/true);
  first->to(device(0));
  second->to(device(1));
  second(first(x.to(device(0))).to(device(1))).sum().backward();
  EXPECT_EQ(first->weight.grad().device(), device(0));
  EXPECT_TRUE(first->weight.grad().cpu().equal(expected));
}

TEST_F(Training, OfTwoThreadsOnTwoDevicesGivesTheBitsOfTheCpu) {
  torch::manual_seed(7);
  const Tensor x = torch::randn({4, 3, 8, 8});
  const auto outputs = [&](torch::Device on, Tensor& result) {
    const auto net = std::make_shared<Block>();
    torch::NoGradGuard no_grad;
    for (Tensor& parameter : net->parameters()) parameter.fill_(0.05);
    net->to(on);
    result = net->forward(torch::cat({x, x, x}, 1).slice(1, 0, 8).to(on)).cpu();
  };
  const Tensor device_used = torch::ones({1}, device(0));
  Tensor expected, results[2];
  outputs(torch::kCPU, expected);
  {
    std::jthread one([&] { outputs(device(0), results[0]); });
    std::jthread other([&] { outputs(device(1), results[1]); });
  }
  EXPECT_TRUE(results[0].equal(expected));
  EXPECT_TRUE(results[1].equal(expected));
}

TEST_F(Training, CanSaveAModelAndLoadItAgain) {
  nn::Linear saved(3, 2), loaded(3, 2);
  saved->to(device(0));
  std::stringstream file;
  torch::save(saved, file);
  torch::load(loaded, file, torch::kCPU);
  loaded->to(device(1));
  EXPECT_TRUE(loaded->weight.cpu().equal(saved->weight.cpu()));
}

}  // namespace
}  // namespace lockstep
