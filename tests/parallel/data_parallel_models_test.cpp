// Which models DataParallel runs, in which modes, and what it tells about a pass.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <chrono>
#include <thread>

#include "lockstep/autocast.h"
#include "lockstep/data_parallel.h"
#include "parallel/devices.h"
#include "parallel/worlds.h"

namespace lockstep {
namespace {

using torch::Tensor;

std::vector<torch::Device> both_devices() {
  return {virtual_device(0), virtual_device(1)};
}

torch::nn::Sequential normalised() {
  return torch::nn::Sequential(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4));
}

torch::nn::Sequential copy_on(const torch::nn::Sequential& net, torch::Device device) {
  return torch::nn::Sequential(
      std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone(device)));
}

TEST(DataParallelModels, KeepBatchNormsStatisticsOfTheFirstPart) {
  const Tensor x = seeded(1, [] { return torch::randn({8, 3}); });
  torch::nn::Sequential reference = normalised();
  torch::nn::Sequential model = copy_on(reference, virtual_device(0));
  DataParallel parallel(model, both_devices());
  parallel(x);
  parallel(x);
  reference->forward(x.slice(0, 0, 4));
  reference->forward(x.slice(0, 0, 4));
  for (size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(model->buffers()[i].cpu().equal(reference->buffers()[i])) << i;
}

TEST(DataParallelModels, FollowTheTrainingModeOfEachModule) {
  const Tensor x = seeded(2, [] { return torch::randn({8, 3}); });
  torch::nn::Sequential reference = normalised();
  reference->forward(x);  // statistics of other values than 0 and 1
  torch::nn::Sequential model = copy_on(reference, virtual_device(0));
  DataParallel parallel(model, both_devices());
  model->eval();
  reference->eval();
  EXPECT_TRUE(parallel(x).cpu().allclose(reference->forward(x)));
  model->train();
  EXPECT_FALSE(parallel(x).cpu().allclose(reference->forward(x)));
  reference = copy_on(model, torch::kCPU);
  model->train();
  model[1]->eval();  // of one layer alone
  reference->eval();
  EXPECT_TRUE(parallel(x).cpu().allclose(reference->forward(x)));
}

TEST(DataParallelModels, DrawTheSameRandomNumbersInEveryRun) {
  const Tensor x = torch::ones({6, 50});
  torch::nn::Sequential reference(torch::nn::Dropout(0.5), torch::nn::Linear(50, 50),
                                  torch::nn::Dropout(0.5));
  torch::nn::Sequential model = copy_on(reference, virtual_device(0));
  torch::manual_seed(9);
  const float unchanged = torch::rand({1}).item<float>();
  torch::manual_seed(9);
  DataParallel parallel(model, both_devices());
  EXPECT_EQ(torch::rand({1}).item<float>(), unchanged);
  const Tensor drawn = seeded(3, [&] {
    return torch::cat({reference->forward(x.slice(0, 0, 3)), reference->forward(x.slice(0, 3, 6))});
  });
  for (int run = 0; run < 3; ++run)
    EXPECT_TRUE(seeded(3, [&] { return parallel(x).cpu(); }).equal(drawn));
}

TEST(DataParallelModels, ComputeInTheCallersModes) {
  const Tensor x = seeded(4, [] { return torch::randn({4, 3}); });
  torch::nn::Linear model(3, 2);
  model->to(virtual_device(0));
  DataParallel parallel(model, both_devices());
  {
    const torch::NoGradGuard no_grad;
    EXPECT_FALSE(parallel(x).requires_grad());
  }
  {
    const c10::InferenceMode inference;
    EXPECT_TRUE(parallel(x).is_inference());
  }
  Tensor loss;
  {
    const Autocast autocast(virtual_device(0).type(), torch::kHalf);
    const Tensor y = parallel(x);
    EXPECT_EQ(y.scalar_type(), torch::kHalf);
    loss = y.to(torch::kFloat).sum();
  }
  loss.backward();
  EXPECT_EQ(model->weight.grad().scalar_type(), torch::kFloat);
  EXPECT_TRUE(model->weight.grad().cpu().allclose(x.sum(0).expand({2, 3}), 1e-2, 1e-2));
}

struct SeveralImpl : torch::nn::Cloneable<SeveralImpl> {
  SeveralImpl() { reset(); }
  void reset() override { weight = register_parameter("weight", torch::ones({3})); }
  std::tuple<Tensor, std::vector<Tensor>> forward(const Tensors& named, const Tensor& shift,
                                                  int64_t times) {
    const Tensor sum = (named["a"] + named["b"]) * weight;
    return {sum * times, {sum + shift, sum.argmax(1), Tensor()}};
  }
  Tensor weight;
};

TEST(DataParallelModels, TakeAndReturnContainersOfTensors) {
  const Tensor a = seeded(5, [] { return torch::randn({5, 3}); }), b = torch::randn({5, 3});
  auto net = std::make_shared<SeveralImpl>();
  const auto expected = net->forward({{"a", a}, {"b", b}}, torch::tensor(2.0F), 3);
  net->to(virtual_device(0));
  DataParallel parallel(net, both_devices());
  const auto [product, others] = parallel(Tensors{{"a", a}, {"b", b}}, torch::tensor(2.0F), 3);
  EXPECT_TRUE(product.cpu().equal(std::get<0>(expected)));
  ASSERT_EQ(others.size(), 3U);
  EXPECT_TRUE(others[0].cpu().equal(std::get<1>(expected)[0]));
  EXPECT_TRUE(others[1].cpu().equal(std::get<1>(expected)[1]));
  EXPECT_FALSE(others[2].defined());
  (product.sum() + others[0].sum()).backward();
  EXPECT_TRUE(net->weight.grad().cpu().allclose((a + b).sum(0) * 4, 1e-4, 1e-5));
}

// A layer that gets gradients from three results.
struct ThreeHeadsImpl : torch::nn::Cloneable<ThreeHeadsImpl> {
  ThreeHeadsImpl() { reset(); }
  void reset() override {
    trunk = register_module("trunk", torch::nn::Linear(4, 16));
    for (size_t i = 0; i < 3; ++i)
      heads[i] = register_module("head" + std::to_string(i), torch::nn::Linear(16, 16));
  }
  std::vector<Tensor> forward(const Tensor& x) {
    const Tensor h = torch::tanh(trunk(x));
    return {torch::tanh(heads[0](h)), torch::exp(heads[1](h)), heads[2](h)};
  }
  torch::nn::Linear trunk{nullptr};
  std::array<torch::nn::Linear, 3> heads = {nullptr, nullptr, nullptr};
};

TEST(DataParallelModels, WithSeveralResultsHaveTheSameBitsWhicheverGradientIsLate) {
  const Tensor x = seeded(6, [] { return torch::randn({9, 4}); });
  const auto net = seeded(7, [] { return std::make_shared<ThreeHeadsImpl>(); });
  net->to(virtual_device(0));
  DataParallel parallel(net, {virtual_device(0), virtual_device(1), virtual_device(2)});
  Tensor without_delay;
  for (const size_t late : {3, 2, 1, 0}) {  // 3: none
    net->zero_grad();
    auto results = parallel(x);
    results[2] = results[2].cpu();  // another thread computes its gradient
    if (late < 3)
      results[late].register_hook(
          [](const Tensor&) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
    const Tensor loss = (results[0].sum() + results[1].pow(2).sum()).cpu();
    (loss + results[2].pow(3).sum()).backward();
    const Tensor gradient = net->trunk->weight.grad().cpu();
    if (late == 3) without_delay = gradient.clone();
    EXPECT_TRUE(gradient.equal(without_delay)) << "result " << late;
  }
}

TEST(DataParallelModels, GiveTheirInputsGradients) {
  torch::nn::Linear model(3, 2);
  model->to(virtual_device(0));
  DataParallel parallel(model, both_devices());
  for (const torch::Device device : {torch::Device(torch::kCPU), virtual_device(0)}) {
    const Tensor x = torch::ones({5, 3}, device).requires_grad_();
    parallel(x).sum().backward();
    EXPECT_EQ(x.grad().device(), device);
    EXPECT_TRUE(x.grad().cpu().allclose(model->weight.detach().cpu().sum(0).expand({5, 3})));
  }
}

TEST(DataParallelModels, UseFewerDevicesForFewerSamples) {
  torch::nn::Linear model(3, 2);
  model->to(virtual_device(0));
  DataParallel parallel(model, {virtual_device(0), virtual_device(2), virtual_device(3)});
  for (const int64_t samples : {0, 1, 2, 3, 4}) {
    EXPECT_EQ(parallel(torch::ones({samples, 3})).sizes(), (std::vector<int64_t>{samples, 2}));
    EXPECT_EQ(parallel.last().devices, std::clamp<int64_t>(samples, 1, 3));
    EXPECT_EQ(parallel.last().samples, samples);
  }
}

struct PlainImpl : torch::nn::Module {
  explicit PlainImpl(int64_t width) : fc(register_module("fc", torch::nn::Linear(3, width))) {}
  Tensor forward(const Tensor& x) { return fc(x); }
  torch::nn::Linear fc;
};

TEST(DataParallelModels, ThatAreNotCloneableAreMadeByTheCaller) {
  const auto model = std::make_shared<PlainImpl>(2);
  const Tensor x = torch::ones({4, 3}), expected = model->forward(x);
  model->to(virtual_device(0));
  DataParallel parallel(model, both_devices(),
                        {.make_replica = [] { return std::make_shared<PlainImpl>(2); }});
  EXPECT_TRUE(parallel(x).cpu().equal(expected));
}

TEST(DataParallelModels, OnTheCpuAloneAreJustCalled) {
  const auto model = std::make_shared<PlainImpl>(2);
  DataParallel parallel(model, {torch::kCPU});
  const Tensor x = torch::ones({4, 3});
  EXPECT_TRUE(parallel(x).equal(model->forward(x)));
  parallel(x).sum().backward();
  EXPECT_EQ(model->fc->bias.grad()[0].item<float>(), 4);
  EXPECT_EQ(parallel.last().bytes_scattered + parallel.last().bytes_replicated, 0);
  parallel->eval();
  EXPECT_FALSE(model->is_training());
}

TEST(DataParallelModels, CountWhatAPassCopies) {
  torch::nn::Sequential model = normalised();
  model->to(virtual_device(0));
  using Times = DataParallelOptions::Times;
  for (const Times times : {Times::of_host, Times::of_devices}) {
    DataParallel parallel(model, {virtual_device(0), virtual_device(1), virtual_device(2)},
                          {.times = times});
    parallel(torch::ones({8, 3})).sum().backward();
    const DataParallelPass pass = parallel.last();
    constexpr int64_t kParameters = 4 * (12 + 4 + 4 + 4), kBuffers = 4 * (4 + 4) + 8;
    EXPECT_EQ(pass.bytes_replicated, 2 * (kParameters + kBuffers));
    EXPECT_EQ(pass.bytes_scattered, 8 * 3 * 4);
    EXPECT_EQ(pass.bytes_gathered, 5 * 4 * 4);  // devices 1 and 2 have 3 and 2 samples
    EXPECT_EQ(pass.bytes_reduced, 2 * kParameters);
    for (const double seconds : {pass.replicate_seconds, pass.scatter_seconds, pass.forward_seconds,
                                 pass.gather_seconds, pass.reduce_seconds})
      EXPECT_GT(seconds, 0);
    parallel(torch::ones({8, 3}, virtual_device(0)));
    EXPECT_EQ(parallel.last().bytes_scattered, 5 * 3 * 4);
    EXPECT_EQ(parallel.last().bytes_reduced, 0);
  }
}

}  // namespace
}  // namespace lockstep
