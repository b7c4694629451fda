#include "lockstep/gradient_hook.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <map>

#include "expect_error.h"
#include "lockstep/ddp.h"
#include "parallel/worlds.h"

namespace lockstep {
namespace {

// A gradient that every worker computes exactly: of sum(a . (W x)).
torch::Tensor train_step(World& everyone, const DdpOptions& options,
                         const std::function<torch::Tensor(int rank)>& gradient, int passes = 1) {
  torch::nn::Linear net(torch::nn::LinearOptions(12, 10).bias(false));
  DistributedDataParallel ddp(net, everyone, options);
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
    const torch::Tensor got = train_step(everyone, {.hook = std::make_shared<Largest>()}, ramp);
    EXPECT_TRUE(torch::equal(got, ramp(2)));
  });
}

TEST(GradientHook, IsToldWhichParametersABucketHas) {
  struct Names : GradientHook {
    void reduce(GradientBucket& bucket, World&) override {
      for (size_t i = 0; i < bucket.names.size(); ++i)
        seen[bucket.names[i]] = bucket.gradients[i].sizes().vec();
    }
    std::map<std::string, std::vector<int64_t>> seen;
  };
  as_workers(1, [](World everyone) {
    torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::Linear(3, 2));
    const auto hook = std::make_shared<Names>();
    DistributedDataParallel ddp(net, everyone, {.hook = hook});
    ddp(torch::ones({1, 4})).sum().backward();
    const std::map<std::string, std::vector<int64_t>> expected = {
        {"0.weight", {3, 4}}, {"0.bias", {3}}, {"1.weight", {2, 3}}, {"1.bias", {2}}};
    EXPECT_EQ(hook->seen, expected);
  });
}

TEST(Compression, ToHalfPrecisionGivesTheMeanRounded) {
  as_workers(2, [](World everyone) {
    const torch::Tensor expected = ramp(0) * 1.5;
    EXPECT_TRUE(
        torch::allclose(train_step(everyone, {.compress = Compress::f16}, ramp), expected, 1e-3));
    EXPECT_TRUE(
        torch::allclose(train_step(everyone, {.compress = Compress::bf16}, ramp), expected, 1e-2));
  });
}

TEST(Compression, ToHalfPrecisionTakesMeansOfWhatOverflowsAsASum) {
  as_workers(2, [](World everyone) {
    const auto large = [](int rank) {
      return torch::full({10, 12}, rank == 0 ? 40000.0F : 60000.0F);
    };
    const torch::Tensor got = train_step(everyone, {.compress = Compress::f16}, large);
    EXPECT_TRUE(torch::allclose(got, torch::full({10, 12}, 50000.0F), 1e-3));
  });
}

TEST(GradientHook, BelongsToOneDdp) {
  as_workers(2, [](World everyone) {
    auto hook = std::shared_ptr<GradientHook>(power_sgd());
    torch::nn::Linear one(4, 4), other(4, 4);
    DistributedDataParallel ddp(one, everyone, {.hook = hook});
    expect_bad_input([&] { DistributedDataParallel second(other, everyone, {.hook = hook}); },
                     {"hook", "make one hook for each"});
    ddp.forward(torch::ones({2, 4})).sum().backward();
  });
}

TEST(GradientHook, LearnsWhichParametersABucketHas) {
  struct Numbers : GradientHook {
    void reduce(GradientBucket& bucket, World& world) override {
      ASSERT_EQ(bucket.parameters.size(), bucket.gradients.size());
      for (size_t i = 0; i < bucket.parameters.size(); ++i)
        EXPECT_EQ(bucket.gradients[i].dim(), bucket.parameters[i] == 0 ? 2 : 1);
      world.all_reduce(bucket.values, Operation::mean);
    }
  };
  as_workers(2, [](World everyone) {
    torch::nn::Linear net(4, 3);  // "weight", then "bias"
    DistributedDataParallel ddp(net, everyone, {.hook = std::make_shared<Numbers>()});
    for (int pass = 0; pass < 2; ++pass) ddp.forward(torch::ones({2, 4})).sum().backward();
  });
}

TEST(Compression, SavesBytesThatTheWorldCounts) {
  as_workers(2, [](World everyone) {
    int64_t sent[2] = {};
    for (const int compressed : {0, 1}) {
      torch::nn::Linear net(100, 100);
      DistributedDataParallel ddp(net, everyone,
                                  {.compress = compressed == 1 ? Compress::f16 : Compress::none});
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
    const torch::Tensor got = train_step(everyone, {.hook = power_sgd({.rank = 1})}, gradient, 1);
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
  expect_bad_input([] { power_sgd({.rank = 0}); }, {"1 to 65536"});
}

TEST(PowerSgd, RefusesARankBeyondReason) {
  expect_bad_input([] { power_sgd({.rank = int64_t{1} << 62}); }, {"1 to 65536"});
}

struct TwoMatrices : torch::nn::Module {
  explicit TwoMatrices(torch::ScalarType type = torch::kFloat) {
    a = register_parameter("a", torch::ones({16, 16}, type));
    b = register_parameter("b", torch::ones({16, 16}, type));
  }
  torch::Tensor a, b;
};

torch::Tensor of_full_rank() {
  return torch::eye(16) + torch::arange(256.0F).view({16, 16}).remainder(7);
}

TEST(PowerSgd, KeepsWhatItLeftOutOfAParameterForThatParameter) {
  as_workers(2, [](World everyone) {
    auto net = std::make_shared<TwoMatrices>();
    DistributedDataParallel ddp(net, everyone, {.hook = power_sgd({.rank = 1})});
    const auto step = [&](const torch::Tensor& for_a) {
      net->zero_grad();
      // a's gradient comes before b's, although b is the last one in the model.
      const torch::Tensor of_b = (net->b * torch::zeros({16, 16})).sum();
      const torch::Tensor of_a = (net->a * for_a).sum();
      (of_b + of_a).backward();
    };
    step(of_full_rank());
    double late = 0;
    for (int i = 0; i < 3; ++i) {
      step(torch::zeros({16, 16}));
      late += net->a.grad().abs().sum().item<double>();
      EXPECT_EQ(net->b.grad().abs().sum().item<double>(), 0);
    }
    EXPECT_GT(late, 1);
  });
}

TEST(PowerSgd, TakesParametersOfEveryFloatType) {
  for (const auto type : {torch::kDouble, torch::kFloat, torch::kHalf, torch::kBFloat16})
    as_workers(2, [&](World everyone) {
      auto net = std::make_shared<TwoMatrices>(type);
      DistributedDataParallel ddp(net, everyone, {.hook = power_sgd({.rank = 1})});
      const torch::Tensor target = torch::ones({16, 16}) * (1 + everyone.rank());
      for (int pass = 0; pass < 2; ++pass) {
        net->zero_grad();
        ((net->a.to(torch::kFloat) + net->b.to(torch::kFloat)) * target).sum().backward();
        EXPECT_EQ(net->a.grad().scalar_type(), type);
        EXPECT_TRUE(torch::allclose(net->a.grad().to(torch::kFloat), torch::full({16, 16}, 1.5F),
                                    1e-2, 1e-2));
      }
    });
}

TEST(PowerSgd, TakesParametersWithoutElements) {
  struct Empty : torch::nn::Module {
    Empty() {
      none = register_parameter("none", torch::ones({0, 5}));
      some = register_parameter("some", torch::ones({16, 16}));
    }
    torch::Tensor none, some;
  };
  as_workers(2, [](World everyone) {
    auto net = std::make_shared<Empty>();
    DistributedDataParallel ddp(net, everyone, {.hook = power_sgd({.rank = 1})});
    (net->none.sum() + net->some.sum()).backward();
    EXPECT_TRUE(torch::allclose(net->some.grad(), torch::ones({16, 16})));
  });
}

TEST(PowerSgd, ForgetsAStepThatWasNotANumber) {
  as_workers(2, [](World everyone) {
    auto net = std::make_shared<TwoMatrices>();
    DistributedDataParallel ddp(net, everyone, {.hook = power_sgd({.rank = 2})});
    for (int i = 0; i < 5; ++i) {
      net->zero_grad();
      const float scale = i == 2 && everyone.rank() == 1 ? std::nanf("") : 1.0F;
      ((net->a + net->b) * (of_full_rank() * scale)).sum().backward();
      EXPECT_EQ(std::isfinite(net->a.grad().sum().item<double>()), i != 2) << i;
    }
  });
}

}  // namespace
}  // namespace lockstep
