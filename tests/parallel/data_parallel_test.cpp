// What several devices compute is compared with one CPU that computes the parts of the batch one by
// one and adds their gradients in the order of devices: to the bit.
#include "lockstep/data_parallel.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "base/range.h"
#include "lockstep/autocast.h"
#include "parallel/devices.h"
#include "parallel/worlds.h"

namespace lockstep {
namespace {

using torch::Tensor;
using List = std::vector<Tensor>;

std::vector<torch::Device> first_devices(int count) {
  std::vector<torch::Device> devices;
  for (int i = 0; i < count; ++i) devices.push_back(virtual_device(i));
  return devices;
}

// Parameters of two types, one of them used twice, one frozen and one unused; an integer buffer.
struct MixedNetImpl : torch::nn::Cloneable<MixedNetImpl> {
  MixedNetImpl() { reset(); }
  void reset() override {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 4, 3)));
    twice = register_module("twice", torch::nn::Linear(4, 4));
    fc = register_module("fc", torch::nn::Linear(4, 3));
    scale = register_parameter("scale", torch::full({3}, 1.5, torch::kDouble));
    frozen = register_parameter("frozen", torch::full({1}, 0.75), false);
    unused = register_parameter("unused", torch::ones({2}));
    calls = register_buffer("calls", torch::zeros({1}, torch::kLong));
  }
  Tensor forward(const Tensor& x) {
    calls += 1;
    Tensor h = torch::relu(conv(x)).mean({2, 3}) * frozen;
    h = twice(torch::tanh(twice(torch::tanh(twice(h)))));
    return fc(h) * scale.to(torch::kFloat);
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::Linear twice{nullptr}, fc{nullptr};
  Tensor scale, frozen, unused, calls;
};
TORCH_MODULE(MixedNet);

struct Batch7 {
  Tensor x = seeded(1, [] { return torch::randn({7, 2, 6, 6}); });
  Tensor y = torch::arange(7) % 3;
};

template <typename Net>
Net copy_of(const Net& net, torch::Device device) {
  return Net(std::dynamic_pointer_cast<typename Net::ContainedType>(net->clone(device)));
}

// The gradients of cross-entropy, by parts, on the CPU.
List gradients_by_parts(MixedNet& net, const Tensor& x, const Tensor& y, int64_t parts) {
  List trained, outputs, leaves, totals;
  for (const Tensor& parameter : net->parameters())
    if (parameter.requires_grad()) trained.push_back(parameter);
  for (int64_t part = 0; part < parts; ++part) {
    const Range range = slice(x.size(0), parts, part);
    outputs.push_back(net(x.slice(0, range.begin, range.end)));
    leaves.push_back(outputs.back().detach().requires_grad_());
  }
  const List arriving =
      torch::autograd::grad({torch::cross_entropy_loss(torch::cat(leaves), y)}, leaves);
  for (size_t part = 0; part < outputs.size(); ++part) {
    const List own = torch::autograd::grad({outputs[part]}, trained, {arriving[part]},
                                           torch::nullopt, false, /*allow_unused=*/true);
    for (size_t i = 0; i < own.size(); ++i)
      if (part == 0)
        totals.push_back(own[i]);
      else if (own[i].defined())
        totals[i] = totals[i] + own[i];
  }
  return totals;
}

List gradients_of(torch::nn::Module& model) {
  List gradients;
  for (const Tensor& parameter : model.parameters())
    if (parameter.requires_grad())
      gradients.push_back(parameter.grad().defined() ? parameter.grad().cpu() : Tensor());
  return gradients;
}

void expect_same_bits(const List& a, const List& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(a.empty());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].defined(), b[i].defined()) << "tensor " << i;
    EXPECT_TRUE(!a[i].defined() || a[i].cpu().equal(b[i].cpu())) << "tensor " << i;
  }
}

TEST(DataParallel, GivesTheBitsOfThePartsThatOneDeviceComputesInTurn) {
  const Batch7 batch;
  for (const int count : {1, 2, 3, 4}) {
    MixedNet reference = seeded(2, [] { return MixedNet(); });
    MixedNet model = copy_of(reference, virtual_device(0));
    model->frozen.set_requires_grad(false);
    reference->frozen.set_requires_grad(false);
    DataParallel parallel(model, first_devices(count));
    torch::optim::SGD optimizer(model->parameters(), 0.1), expected(reference->parameters(), 0.1);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      const Tensor scores = parallel(batch.x);
      EXPECT_EQ(scores.device(), virtual_device(0));
      torch::cross_entropy_loss(scores, batch.y.to(virtual_device(0))).backward();
      const List gradients = gradients_by_parts(reference, batch.x, batch.y, count);
      expect_same_bits(gradients_of(*model), gradients);
      size_t next = 0;
      for (Tensor& parameter : reference->parameters())
        if (parameter.requires_grad()) parameter.mutable_grad() = gradients[next++];
      optimizer.step();
      expected.step();
    }
    expect_same_bits(model->parameters(), reference->parameters());
    EXPECT_FALSE(model->unused.grad().defined());
    EXPECT_FALSE(model->frozen.grad().defined());
    EXPECT_EQ(model->calls.cpu().item<int64_t>(), 3);
  }
}

TEST(DataParallel, DiffersFromTheWholeBatchOnOneDeviceByRoundingAlone) {
  const Batch7 batch;
  MixedNet reference = seeded(3, [] { return MixedNet(); });
  MixedNet model = copy_of(reference, virtual_device(0));
  DataParallel parallel(model, first_devices(3));
  torch::cross_entropy_loss(parallel(batch.x), batch.y.to(virtual_device(0))).backward();
  torch::cross_entropy_loss(reference(batch.x), batch.y).backward();
  const List gradients = gradients_of(*model), whole = gradients_of(*reference);
  for (size_t i = 0; i < whole.size(); ++i)
    EXPECT_TRUE(!whole[i].defined() || gradients[i].allclose(whole[i], 1e-4, 1e-6)) << i;
}

TEST(DataParallel, AddsGradientsOfSeveralPasses) {
  torch::nn::Linear reference = seeded(4, [] { return torch::nn::Linear(5, 3); });
  const Tensor a = torch::randn({4, 5}), b = torch::randn({4, 5});
  const auto own = [&](const Tensor& x, int64_t part) {
    return torch::autograd::grad({reference(x.slice(0, 2 * part, 2 * part + 2)).pow(2).sum()},
                                 {reference->weight})[0];
  };
  torch::nn::Linear model = copy_of(reference, virtual_device(0));
  DataParallel parallel(model, first_devices(2));
  parallel(a).pow(2).sum().backward();  // accumulated
  parallel(b).pow(2).sum().backward();
  EXPECT_TRUE(model->weight.grad().cpu().equal((own(a, 0) + own(a, 1)) + (own(b, 0) + own(b, 1))));
  model->zero_grad();
  const Tensor one = parallel(a), other = parallel(b);  // two forward passes, one backward pass
  (one.pow(2).sum() + other.pow(2).sum()).backward();
  EXPECT_TRUE(model->weight.grad().cpu().equal((own(a, 0) + own(b, 0)) + (own(a, 1) + own(b, 1))));
  model->zero_grad();
  const Tensor early = parallel(a);
  {
    const torch::NoGradGuard no_grad;
    parallel(b);
  }
  early.pow(2).sum().backward();
  EXPECT_TRUE(model->weight.grad().cpu().equal(own(a, 0) + own(a, 1)));
}

TEST(DataParallel, GivesGradientsToWhoeverAsksLibTorchForThem) {
  const Tensor x = seeded(5, [] { return torch::randn({6, 4}); });
  torch::nn::Linear model(4, 2);
  model->to(virtual_device(0));
  Tensor result;
  int calls = 0;
  model->weight.register_hook([&](const Tensor&) { ++calls; });
  {
    DataParallel parallel(model, first_devices(3));
    result = parallel(x);
  }  // its graph lives on
  const Tensor asked =
      torch::autograd::grad({result.sum()}, {model->weight}, {}, /*retain_graph=*/true)[0];
  calls = 0;  // LibTorch 2 calls hooks for the gradient that is asked for, too
  result.sum().backward();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(asked.cpu().equal(model->weight.grad().cpu()));
  EXPECT_TRUE(asked.cpu().allclose(x.sum(0).expand({2, 4})));
}

TEST(DataParallel, DifferentiatesTwice) {
  const Tensor x = seeded(6, [] { return torch::randn({4, 3}); });
  torch::nn::Linear reference = seeded(7, [] { return torch::nn::Linear(3, 2); });
  torch::nn::Linear model = copy_of(reference, virtual_device(0));
  DataParallel parallel(model, first_devices(2));
  const auto penalty = [](const Tensor& result, const Tensor& input) {
    return torch::autograd::grad({result.pow(3).sum()}, {input}, {}, true, true)[0].pow(2).sum();
  };
  const Tensor here = x.clone().requires_grad_();
  penalty(reference(here), here).backward();
  const Tensor there = x.clone().to(virtual_device(0)).requires_grad_();
  penalty(parallel(there), there).backward();
  EXPECT_TRUE(model->weight.grad().cpu().allclose(reference->weight.grad(), 1e-4, 1e-5));
  EXPECT_TRUE(there.grad().cpu().allclose(here.grad(), 1e-4, 1e-5));
}

TEST(DataParallel, FollowsWhatIsLoadedFrozenAndReplaced) {
  const Batch7 batch;
  MixedNet model(seeded(8, [] { return MixedNet(); }));
  model->to(virtual_device(0));
  DataParallel parallel(model, first_devices(2));
  const auto expect_as_one_device = [&](const char* after) {
    SCOPED_TRACE(after);
    for (Tensor& parameter : model->parameters()) parameter.mutable_grad().reset();
    MixedNet reference = copy_of(model, torch::kCPU);
    for (size_t i = 0; i < model->parameters().size(); ++i)
      reference->parameters()[i].set_requires_grad(model->parameters()[i].requires_grad());
    torch::cross_entropy_loss(parallel(batch.x), batch.y.to(virtual_device(0))).backward();
    expect_same_bits(gradients_of(*model), gradients_by_parts(reference, batch.x, batch.y, 2));
  };
  expect_as_one_device("it was made");
  for (const Tensor& parameter : model->conv->parameters()) parameter.set_requires_grad(false);
  expect_as_one_device("freezing");
  for (const Tensor& parameter : model->conv->parameters()) parameter.set_requires_grad(true);
  model->frozen.set_requires_grad(true);
  expect_as_one_device("unfreezing");
  model->fc->weight.set_data(torch::full({3, 4}, 0.25).to(virtual_device(0)));
  model->scale.set_data(torch::full({1}, 2.0).to(virtual_device(0)));  // other type and size
  expect_as_one_device("set_data");
  std::stringstream file;
  torch::save(MixedNet(), file);
  torch::load(model, file, torch::kCPU);
  model->to(virtual_device(0));
  expect_as_one_device("loading");
}

TEST(DataParallel, AddsGradientsOfAParameterWithTwoNames) {
  struct TiedImpl : torch::nn::Cloneable<TiedImpl> {
    TiedImpl() { reset(); }
    void reset() override {
      fc = register_module("fc", torch::nn::Linear(3, 3));
      again = register_parameter("again", fc->weight);
    }
    Tensor forward(const Tensor& x) { return torch::linear(torch::tanh(fc(x)), again); }
    torch::nn::Linear fc{nullptr};
    Tensor again;
  };
  const auto model = std::make_shared<TiedImpl>();
  const Tensor x = torch::randn({4, 3});
  const Tensor expected = torch::autograd::grad({model->forward(x).sum()}, {model->again})[0];
  model->to(virtual_device(0));
  DataParallel parallel(model, first_devices(2));
  parallel(x).sum().backward();
  EXPECT_TRUE(model->again.grad().cpu().allclose(expected));
}

}  // namespace
}  // namespace lockstep
