// A user's own loop whose result does not depend on the number of workers.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mutex>
#include <set>

#include "expect_error.h"
#include "lockstep/ddp.h"
#include "lockstep/sampler.h"
#include "lockstep/sync_batch_norm.h"
#include "parallel/worlds.h"

namespace lockstep {
namespace {

constexpr int64_t kShards = 6, kShardBatch = 4, kSamples = 96;

torch::nn::Sequential net_of_seed_1() {
  // LibTorch has one random generator for all threads.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(5, 8), torch::nn::BatchNorm1d(8),
                               torch::nn::Linear(8, 3));
}

torch::Tensor rows(const std::vector<size_t>& samples) {
  std::vector<torch::Tensor> all;
  for (const size_t sample : samples)
    all.push_back((torch::arange(5) + static_cast<double>(sample) * 3.7).sin().to(torch::kFloat));
  return torch::stack(all);
}

struct Trained {
  std::vector<torch::Tensor> state;
  int64_t steps = 0;
};

// As the documentation has it: a backward pass a shard, an optimizer step when a step is complete.
Trained train(World world, const DdpOptions& options) {
  torch::nn::Sequential net = net_of_seed_1();
  DistributedDataParallel ddp(net, world, options);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  DistributedSampler sampler(kSamples, world, {.shards = kShards});
  Trained trained;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    sampler.set_epoch(epoch);
    while (const auto samples = sampler.next(kShardBatch)) {
      ddp.forward(rows(*samples)).square().mean().backward();
      if (!ddp.step_complete()) continue;
      optimizer.step();
      optimizer.zero_grad();
      ++trained.steps;
    }
  }
  for (const torch::Tensor& tensor : net->parameters()) trained.state.push_back(tensor.clone());
  for (const torch::Tensor& tensor : net->buffers()) trained.state.push_back(tensor.clone());
  return trained;
}

void expect_same_on_any_workers(const DdpOptions& options) {
  Trained alone;
  as_workers(1, [&](World world) { alone = train(world, options); });
  EXPECT_EQ(alone.steps, 2 * kSamples / (kShards * kShardBatch));
  for (const int workers : {2, 3, 4, 6})
    as_workers(workers, [&](World world) {
      const Trained together = train(world, options);
      EXPECT_EQ(together.steps, alone.steps);
      for (size_t i = 0; i < alone.state.size(); ++i)
        EXPECT_TRUE(torch::equal(together.state[i], alone.state[i]))
            << workers << " workers, tensor " << i;
    });
}

TEST(DdpShards, GiveTheSameBitsOnAnyNumberOfWorkers) {
  expect_same_on_any_workers({.shards = kShards});
}

std::string warning_with_sampler_of(const SamplerOptions& options) {
  testing::internal::CaptureStderr();
  as_workers(2, [&](World world) {
    torch::nn::Sequential net = net_of_seed_1();
    const DistributedSampler sampler(kSamples, world, options);
    DistributedDataParallel ddp(net, world, {.shards = kShards});
    ddp.forward(rows({1, 2}));
    ddp.forward(rows({1, 2}));
  });
  return testing::internal::GetCapturedStderr();
}

TEST(DdpShards, WarnOnceWhereTheSamplerHasAnotherNumber) {
  EXPECT_EQ(warning_with_sampler_of({}),
            "lockstep: DdpOptions::shards is 6 and SamplerOptions::shards is 0: the model will "
            "depend on the number of workers; set both to the same number\n");
  EXPECT_EQ(warning_with_sampler_of({.shards = kShards}), "");
  EXPECT_EQ(warning_with_sampler_of({.uneven = Uneven::keep}), "") << "a sampler for evaluation";
}

TEST(DdpShards, WarnOfSeveralThreads) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  const std::string warning = warning_with_sampler_of({.shards = kShards});
  at::set_num_threads(before);
  EXPECT_NE(warning.find("2 threads"), std::string::npos) << warning;
  EXPECT_NE(warning.find("torch::set_num_threads(1)"), std::string::npos) << warning;
}

TEST(DdpShards, AreRefusedWithAnAlgorithmWhoseOrderDependsOnTheWorkers) {
  as_workers(2, [](World world) {
    world.communicator().choose([](int64_t) { return collective::parse_algorithm("ring"); });
    torch::nn::Sequential net = net_of_seed_1();
    expect_bad_input([&] { DistributedDataParallel ddp(net, world, {.shards = kShards}); },
                     {"ring", "order"});
  });
}

TEST(DdpShards, GiveTheSameBitsWhereGradientsAreCompressed) {
  expect_same_on_any_workers({.compress = Compress::bf16, .shards = kShards});
  expect_same_on_any_workers({.compress = Compress::f16, .shards = kShards});
}

TEST(DdpShards, GiveTheGradientOfTheWholeBatch) {
  as_workers(2, [](World world) {
    torch::nn::Linear net(5, 1);
    {
      torch::NoGradGuard no_grad;
      net->weight.fill_(0.5);
      net->bias.zero_();
    }
    DistributedDataParallel ddp(net, world, {.shards = 4});
    const torch::Tensor all = rows({0, 1, 2, 3, 4, 5, 6, 7});
    for (const int64_t shard : {2 * world.rank(), 2 * world.rank() + 1})
      ddp.forward(all.slice(0, 2 * shard, 2 * shard + 2)).square().mean().backward();
    torch::nn::Linear whole(5, 1);
    {
      torch::NoGradGuard no_grad;
      whole->weight.fill_(0.5);
      whole->bias.zero_();
    }
    whole(all).square().mean().backward();
    EXPECT_TRUE(torch::allclose(net->weight.grad(), whole->weight.grad(), 1e-5, 1e-6));
  });
}

TEST(DdpShards, AreRefusedWithWhatCannotBeDividedThatWay) {
  as_workers(2, [](World world) {
    torch::nn::Linear net(5, 1);
    expect_bad_input([&] { DistributedDataParallel ddp(net, world, {.shards = 1}); },
                     {"DdpOptions::shards is 1", "2 workers"});
    expect_bad_input(
        [&] {
          DistributedDataParallel ddp(
              net, world, {.hook = std::shared_ptr<GradientHook>(power_sgd()), .shards = 4});
        },
        {"gradient hook", "one shard per worker"});
    expect_bad_input(
        [&] {
          nn::SyncBatchNorm norm(5, world);
          DistributedDataParallel ddp(norm, world, {.shards = 4});
        },
        {"SyncBatchNorm", "use BatchNorm"});
    DistributedDataParallel ddp(net, world, {.shards = 4});
    expect_bad_input([&] { auto scope = ddp.no_sync(); }, {"no_sync", "more shards"});
    expect_bad_input([&] { ddp.join([] {}, {}); }, {"join"});
  });
}

TEST(DdpShards, NeedAForwardPassThroughDdpForEachBackwardPass) {
  const auto errors = errors_of_workers(2, [](World world) {
    torch::nn::Linear net(5, 1);
    DistributedDataParallel ddp(net, world, {.shards = 4});
    net(torch::ones({2, 5})).sum().backward();
  });
  for (const std::string& error : errors)
    EXPECT_TRUE(has(error, "DistributedDataParallel::forward")) << error;
}

TEST(DistributedSampler, GivesShardsTheSameSamplesOnAnyNumberOfWorkers) {
  const auto batches = [](int world) {
    std::set<std::vector<size_t>> all;
    for (int rank = 0; rank < world; ++rank) {
      DistributedSampler sampler(50, rank, world, {.shards = 6});
      while (const auto batch = sampler.next(4)) all.insert(*batch);
    }
    return all;
  };
  EXPECT_EQ(batches(1).size(), 18U) << "9 samples a shard, in batches of 4, 4 and 1";
  for (const int world : {2, 3, 4, 5, 6}) EXPECT_EQ(batches(world), batches(1)) << world;
}

}  // namespace
}  // namespace lockstep
