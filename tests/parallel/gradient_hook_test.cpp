#include "lockstep/gradient_hook.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "expect_error.h"
#include "lockstep/ddp.h"
#include "parallel/worlds.h"

namespace lockstep {
namespace {

// A gradient that every worker computes exactly: of sum(a . (W x)).
torch::Tensor train_step(World& everyone, std::shared_ptr<GradientHook> hook,
                         const std::function<torch::Tensor(int rank)>& gradient, int passes = 1) {
  torch::nn::Linear net(torch::nn::LinearOptions(12, 10).bias(false));
  DistributedDataParallel ddp(net, everyone, {.hook = std::move(hook)});
  torch::Tensor last;
  for (int pass = 0; pass < passes; ++pass) {
    net->zero_grad();
    net->weight.mul(gradient(everyone.rank())).sum().backward();
    last = net->weight.grad().clone();
  }
  return last;
}

torch::Tensor ramp(int rank) {
  return torch::arange(120, torch::kFloat).view({10, 12}) * (rank + 1);
}

TEST(GradientHook, OfTheUsersReplacesTheAllReduce) {
  struct Largest : GradientHook {
    void reduce(GradientBucket& bucket, World& world) override {
      world.all_reduce(bucket.values, Operation::max);
    }
  };
  as_workers(3, [](World everyone) {
    const torch::Tensor got = train_step(everyone, std::make_shared<Largest>(), ramp);
    EXPECT_TRUE(torch::equal(got, ramp(2)));
  });
}

TEST(GradientHook, OfHalfPrecisionGivesTheMeanRounded) {
  as_workers(2, [](World everyone) {
    const torch::Tensor expected = ramp(0) * 1.5;
    EXPECT_TRUE(torch::allclose(train_step(everyone, compress_to_f16(), ramp), expected, 1e-3));
    EXPECT_TRUE(torch::allclose(train_step(everyone, compress_to_bf16(), ramp), expected, 1e-2));
  });
}

TEST(GradientHook, OfHalfPrecisionTakesMeansOfWhatOverflowsAsASum) {
  as_workers(2, [](World everyone) {
    const auto large = [](int rank) {
      return torch::full({10, 12}, rank == 0 ? 40000.0F : 60000.0F);
    };
    const torch::Tensor got = train_step(everyone, compress_to_f16(), large);
    EXPECT_TRUE(torch::allclose(got, torch::full({10, 12}, 50000.0F), 1e-3));
  });
}

TEST(GradientHook, BelongsToOneDdp) {
  as_workers(2, [](World everyone) {
    auto hook = std::shared_ptr<GradientHook>(compress_to_f16());
    torch::nn::Linear one(4, 4), other(4, 4);
    DistributedDataParallel ddp(one, everyone, {.hook = hook});
    expect_bad_input([&] { DistributedDataParallel second(other, everyone, {.hook = hook}); },
                     {"hook", "one of its own"});
    ddp.forward(torch::ones({2, 4})).sum().backward();
  });
}

TEST(GradientHook, SavesBytesThatTheWorldCounts) {
  as_workers(2, [](World everyone) {
    int64_t sent[2] = {};
    for (const int compressed : {0, 1}) {
      torch::nn::Linear net(100, 100);
      DistributedDataParallel ddp(
          net, everyone,
          {.hook = compressed == 1 ? std::shared_ptr<GradientHook>(compress_to_f16()) : nullptr});
      for (int pass = 0; pass < 2; ++pass) {
        const int64_t before = everyone.bytes_sent();
        ddp.forward(torch::ones({2, 100})).sum().backward();
        sent[compressed] = everyone.bytes_sent() - before;
      }
    }
    EXPECT_GT(sent[0], 10'000);
    EXPECT_NEAR(static_cast<double>(sent[1]), static_cast<double>(sent[0]) / 2, 200);
  });
}

TEST(PowerSgd, IsExactForGradientsOfItsRank) {
  as_workers(2, [](World everyone) {
    const auto gradient = [](int rank) {
      return torch::outer(torch::arange(10, torch::kFloat) + 1,
                          torch::arange(12, torch::kFloat) - 3 + rank);
    };
    const torch::Tensor expected = (gradient(0) + gradient(1)) / 2;
    const torch::Tensor got = train_step(everyone, power_sgd({.rank = 1}), gradient, 1);
    EXPECT_TRUE(torch::allclose(got, expected, 1e-4, 1e-3));
  });
}

TEST(PowerSgd, SendsLaterWhatItLeftOut) {
  as_workers(2, [](World everyone) {
    torch::Tensor target = torch::eye(10, 12);  // of full rank: one column at a time gets through
    torch::Tensor sum = torch::zeros({10, 12});
    auto hook = std::shared_ptr<GradientHook>(power_sgd({.rank = 2}));
    torch::nn::Linear net(torch::nn::LinearOptions(12, 10).bias(false));
    DistributedDataParallel ddp(net, everyone, {.hook = hook});
    constexpr int kSteps = 200;
    for (int step = 0; step < kSteps; ++step) {
      net->zero_grad();
      net->weight.mul(target).sum().backward();
      sum += net->weight.grad();
    }
    EXPECT_LT((sum / kSteps - target).abs().max().item<double>(), 0.1);
  });
}

TEST(PowerSgd, RefusesARankOfNothing) {
  expect_bad_input([] { power_sgd({.rank = 0}); }, {"at least 1"});
}

}  // namespace
}  // namespace lockstep
