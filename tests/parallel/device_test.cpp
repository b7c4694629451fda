// The same on virtual devices as on the CPU: worker r on device r.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "expect_error.h"
#include "lockstep/ddp.h"
#include "lockstep/sharded_optimizer.h"
#include "lockstep/sync_batch_norm.h"
#include "lockstep/virtual_device.h"
#include "parallel/devices.h"
#include "parallel/every_collective.h"
#include "parallel/some_parameters.h"
#include "parallel/worlds.h"
#include "temporary_folder.h"

namespace lockstep {
namespace {

using torch::Tensor;

enum class On { cpu, devices };

torch::Device device_of(On on, int rank) {
  return on == On::cpu ? torch::Device(torch::kCPU) : virtual_device(rank);
}

struct PlacedNetImpl : torch::nn::Module {
  PlacedNetImpl() {
    register_module("conv", conv);
    register_module("norm", norm);
    register_module("fc", fc);
    scale = register_parameter("scale", torch::ones({1}, torch::kDouble));
    calls = register_buffer("calls", torch::zeros({1}, torch::kLong));
  }
  Tensor forward(const Tensor& x) {
    calls += 1;
    return fc(torch::relu(norm(conv(x))).mean({2, 3})) * scale.to(torch::kFloat);
  }
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(2, 4, 3).padding(1)};
  torch::nn::BatchNorm2d norm{4};
  torch::nn::Linear fc{4, 3};
  Tensor scale, calls;
};
TORCH_MODULE(PlacedNet);

// The model after some steps, as rank 0 has it.
std::vector<Tensor> trained(int workers, On on, const DdpOptions& options) {
  const Tensor x = seeded(1, [] { return torch::randn({12, 2, 5, 5}); });
  const Tensor y = torch::arange(12) % 3;
  std::vector<Tensor> state;
  as_workers(workers, [&](World world) {
    const torch::Device device = device_of(on, world.rank());
    PlacedNet net = seeded(static_cast<uint64_t>(2 + world.rank()), [] { return PlacedNet(); });
    net->to(device);
    DdpOptions own = options;
    if (own.hook) own.hook = power_sgd({.rank = 1});
    DistributedDataParallel ddp(net, world, own);
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    const int64_t shards = own.shards == 0 ? world.size() : own.shards;
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      for (int64_t shard = world.rank(); shard < shards; shard += world.size()) {
        const int64_t each = 12 / shards,
                      here = world.rank() * (shards / world.size()) + shard / world.size();
        const auto part = [&](const Tensor& all) {
          return all.slice(0, here * each, (here + 1) * each).to(device);
        };
        torch::cross_entropy_loss(ddp(part(x)), part(y)).backward();
      }
      EXPECT_TRUE(ddp.step_complete());
      ddp.clip_gradient_norm(1);
      optimizer.step();
    }
    if (world.rank() != 0) return;
    for (const Tensor& tensor : net->parameters()) state.push_back(tensor.detach().cpu());
    for (const Tensor& tensor : net->buffers()) state.push_back(tensor.cpu());
    for (const Tensor& tensor : net->parameters()) EXPECT_EQ(tensor.grad().device(), device);
  });
  return state;
}

void expect_equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(a.empty());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << "tensor " << i;
}

TEST(DevicesInDdp, GiveTheBitsOfTheCpuOnAnyNumberOfWorkers) {
  for (const int workers : {1, 2, 3})
    expect_equal(trained(workers, On::devices, {}), trained(workers, On::cpu, {}));
}

TEST(DevicesInDdp, GiveTheBitsOfTheCpuWithSmallBucketsAndCompression) {
  const DdpOptions small{.first_bucket_bytes = 64, .bucket_bytes = 128};
  expect_equal(trained(2, On::devices, small), trained(2, On::cpu, small));
  for (const Compress compress : {Compress::bf16, Compress::f16})
    expect_equal(trained(2, On::devices, {.compress = compress}),
                 trained(2, On::cpu, {.compress = compress}));
}

TEST(DevicesInDdp, GiveTheBitsOfTheCpuWithAGradientHook) {
  const auto options = [] { return DdpOptions{.hook = power_sgd({.rank = 1})}; };
  expect_equal(trained(2, On::devices, options()), trained(2, On::cpu, options()));
}

TEST(DevicesInDdp, GiveTheSameBitsByShardsOnAnyNumberOfWorkers) {
  const DdpOptions options{.shards = 4};
  const auto expected = trained(1, On::cpu, options);
  for (const int workers : {1, 2, 4})
    expect_equal(trained(workers, On::devices, options), expected);
}

TEST(DevicesInDdp, MustBeOneForAllParametersAndStayThat) {
  as_workers(2, [](World world) {
    const auto make = [&](const PlacedNet& net) { DistributedDataParallel ddp(net, world); };
    PlacedNet spread;
    spread->conv->to(device_of(On::devices, 0));
    expect_bad_input([&] { make(spread); },
                     {"is on ", "virtual:0", "a model must be on one device"});
  });
  as_workers(2, [](World world) {
    PlacedNet net;
    net->to(device_of(On::devices, world.rank()));
    DistributedDataParallel ddp(net, world);
    net->to(torch::kCPU);
    expect_bad_input([&] { ddp(torch::ones({2, 2, 5, 5})); },
                     {"was on virtual:", "is on cpu now", "move the model before it is wrapped"});
  });
}

TEST(DevicesInDdp, RefuseToJoin) {
  as_workers(2, [](World world) {
    PlacedNet net;
    net->to(device_of(On::devices, world.rank()));
    DistributedDataParallel ddp(net, world);
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    expect_bad_input([&] { ddp.join([] {}, {&optimizer}); }, {"join on virtual:", "Uneven::pad"});
  });
}

TEST(DevicesInWorld, GetWhatTheCpuGetsFromEveryCollective) {
  as_workers(3, [](World world) {
    const torch::Device device = device_of(On::devices, world.rank());
    const auto mine = torch::arange(6).view({3, 2}).to(torch::kFloat) + 10 * world.rank();
    for (const auto& [name, result] : every_collective()) {
      const Tensor on_cpu = result(world, mine.clone()), there = result(world, mine.to(device));
      EXPECT_EQ(there.defined(), on_cpu.defined()) << name;
      if (!on_cpu.defined() || !there.defined()) continue;
      EXPECT_EQ(there.device(), device) << name;
      EXPECT_TRUE(there.cpu().equal(on_cpu)) << name;
    }
  });
}

TEST(DevicesInSyncBatchNorm, GiveTheBitsOfTheCpu) {
  std::vector<Tensor> results[2];
  for (const On on : {On::cpu, On::devices})
    as_workers(2, [&](World world) {
      const torch::Device device = device_of(on, world.rank());
      nn::SyncBatchNorm norm(torch::nn::BatchNormOptions(3), world);
      norm->to(device);
      Tensor x = seeded(5, [] { return torch::randn({4, 3, 2}); })
                     .slice(0, 2 * world.rank(), 2 * world.rank() + 2)
                     .to(device)
                     .requires_grad_();
      const Tensor y = norm(x);
      y.pow(3).sum().backward();
      if (world.rank() == 1)
        results[on == On::cpu ? 0 : 1] = {y.detach().cpu(), x.grad().cpu(),
                                          norm->weight.grad().cpu(), norm->running_var.cpu()};
    });
  expect_equal(results[1], results[0]);
}

TEST(DevicesInShardedOptimizer, GiveTheBitsOfTheCpuAlsoAfterLoading) {
  const auto options = torch::optim::AdamWOptions(0.01);
  const std::vector<Tensor> expected = optimized::some_parameters();
  torch::optim::AdamW itself(expected, options);
  optimized::train(itself, expected, 0, 5);
  const TemporaryFolder folder;
  for (const int workers : {1, 2, 3})
    as_workers(workers, [&](World world) {
      const auto parameters = optimized::some_parameters(device_of(On::devices, world.rank()));
      ShardedOptimizer<torch::optim::AdamW> optimizer(parameters, options, world);
      optimized::train(optimizer, parameters, 0, 3);
      optimizer.save_to(folder / "optimizer.pt");
      torch::load(optimizer, (folder / "optimizer.pt").string());
      optimized::train(optimizer, parameters, 3, 5);
      optimized::expect_same_bits(parameters, expected, fmt::format("{} devices", workers));
    });
}

TEST(DevicesInShardedOptimizer, MustBeOneForAllParametersAndStayThat) {
  as_workers(2, [](World world) {
    Tensor a = torch::ones({300}).requires_grad_(), b = torch::ones({3});
    const Tensor there = b.to(device_of(On::devices, 0));
    expect_bad_input(
        [&] { ShardedOptimizer<torch::optim::SGD> optimizer(std::vector{a, there}, 0.1, world); },
        {"parameter 0 of group 0 is on cpu", "on virtual:0", "on one device"});
    ShardedOptimizer<torch::optim::SGD> optimizer(std::vector{a, b}, 0.1, world);
    a.set_data(a.detach().to(device_of(On::devices, world.rank())));
    expect_bad_input([&] { optimizer.step(); }, {"was Float on cpu", "move the model first"});
  });
}

}  // namespace
}  // namespace lockstep
