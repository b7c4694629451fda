#include "lockstep/sharded_optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "expect_error.h"
#include "lockstep/ddp.h"
#include "parallel/own_optimizer.h"
#include "parallel/some_parameters.h"
#include "parallel/worlds.h"

namespace lockstep::optimized {
namespace {

using torch::optim::OptimizerParamGroup;

constexpr int kSteps = 5;

template <typename Inner, typename Options, typename Make>
void expect_bits_of(const Options& options, const Make& make, const std::string& name) {
  const Tensors expected = make();
  Inner itself(expected, options);
  train(itself, expected, 0, kSteps);
  for (const int workers : {1, 2, 3, 4})
    as_workers(workers, [&](World world) {
      const Tensors parameters = make();
      ShardedOptimizer<Inner> optimizer(parameters, options, world);
      train(optimizer, parameters, 0, kSteps);
      expect_same_bits(parameters, expected,
                       fmt::format("{} on rank {} of {}", name, world.rank(), workers));
    });
}

template <typename Inner, typename Options>
void expect_bits_of(const Options& options, const std::string& name) {
  expect_bits_of<Inner>(options, [] { return some_parameters(); }, name);
}

TEST(ShardedOptimizer, GivesTheBitsOfSgd) {
  using torch::optim::SGD, torch::optim::SGDOptions;
  expect_bits_of<SGD>(SGDOptions(0.1), "plain");
  expect_bits_of<SGD>(SGDOptions(0.1).momentum(0.9).weight_decay(0.01), "momentum");
  expect_bits_of<SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true), "nesterov");
  expect_bits_of<SGD>(0.1, "a learning rate");
}

TEST(ShardedOptimizer, GivesTheBitsOfAdam) {
  using torch::optim::Adam, torch::optim::AdamOptions;
  expect_bits_of<Adam>(AdamOptions(0.01), "plain");
  expect_bits_of<Adam>(AdamOptions(0.01).amsgrad(true).weight_decay(0.1), "amsgrad");
}

TEST(ShardedOptimizer, GivesTheBitsOfAdamW) {
  using torch::optim::AdamW, torch::optim::AdamWOptions;
  expect_bits_of<AdamW>(AdamWOptions(0.01), "plain");
  expect_bits_of<AdamW>(AdamWOptions(0.01).amsgrad(true), "amsgrad");
}

TEST(ShardedOptimizer, GivesTheBitsOfRmsprop) {
  using torch::optim::RMSprop, torch::optim::RMSpropOptions;
  expect_bits_of<RMSprop>(RMSpropOptions(0.01), "plain");
  expect_bits_of<RMSprop>(RMSpropOptions(0.01).momentum(0.9).centered(true), "centered");
}

TEST(ShardedOptimizer, GivesTheBitsOfAdagrad) {
  using torch::optim::Adagrad, torch::optim::AdagradOptions;
  expect_bits_of<Adagrad>(AdagradOptions(0.1).lr_decay(0.1).initial_accumulator_value(0.5), "");
}

TEST(ShardedOptimizer, GivesTheBitsOfAnOptimizerOfYourOwn) {
  expect_bits_of<NormedSgd>(NormedSgdOptions(0.1), "normed");
}

TEST(ShardedOptimizer, GivesTheBitsOf16BitParameters) {
  for (const auto type : {torch::kHalf, torch::kBFloat16}) {
    const auto make = [&] {
      Tensors parameters;
      for (const Tensor& parameter : some_parameters())
        parameters.push_back(parameter.detach().to(type).requires_grad_(parameter.requires_grad()));
      return parameters;
    };
    expect_bits_of<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9), make,
                                      c10::toString(type));
    if (type == torch::kBFloat16)
      expect_bits_of<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01), make, "adamw");
  }
}

// Two groups; the learning rate of one follows a schedule, that of the other is set.
template <typename Optimizer>
void train_groups(Optimizer& optimizer, const Tensors& parameters) {
  torch::optim::StepLR schedule(optimizer, 2, 0.5);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.param_groups()[1].options().set_lr(0.3 / (1 + step));
    optimizer.zero_grad();
    set_gradients(parameters, step);
    optimizer.step();
    schedule.step();
  }
}

std::vector<OptimizerParamGroup> two_groups(const Tensors& parameters) {
  using torch::optim::SGDOptions;
  OptimizerParamGroup first(Tensors(parameters.begin(), parameters.begin() + 3));
  OptimizerParamGroup second(Tensors(parameters.begin() + 3, parameters.end()),
                             std::make_unique<SGDOptions>(SGDOptions(0.3).momentum(0.5)));
  return {first, second};
}

TEST(ShardedOptimizer, HasParameterGroupsWhoseOptionsMayChange) {
  using torch::optim::SGD, torch::optim::SGDOptions;
  const Tensors expected = some_parameters();
  SGD itself(two_groups(expected), SGDOptions(0.2));
  train_groups(itself, expected);
  for (const int workers : {1, 2, 3})
    as_workers(workers, [&](World world) {
      const Tensors parameters = some_parameters();
      ShardedOptimizer<SGD> optimizer(two_groups(parameters), SGDOptions(0.2), world);
      train_groups(optimizer, parameters);
      expect_same_bits(parameters, expected, fmt::format("{} workers", workers));
      EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(),
                itself.param_groups()[0].options().get_lr());
    });
}

TEST(ShardedOptimizer, CallsAClosureOnce) {
  as_workers(2, [](World world) {
    const Tensors parameters = {torch::ones({300}).requires_grad_()};
    ShardedOptimizer<torch::optim::SGD> optimizer(parameters, 0.5, world);
    int calls = 0;
    const Tensor loss = optimizer.step([&] {
      ++calls;
      optimizer.zero_grad();
      Tensor sum = parameters[0].sum();
      sum.backward();
      return sum;
    });
    EXPECT_EQ(loss.item<float>(), 300);
    EXPECT_EQ(calls, 1);
    EXPECT_TRUE(parameters[0].detach().equal(torch::full({300}, 0.5F)));
  });
}

TEST(ShardedOptimizer, FollowsParametersThatGetOtherMemory) {
  as_workers(2, [](World world) {
    Tensor parameter = torch::ones({300}).requires_grad_();
    ShardedOptimizer<torch::optim::SGD> optimizer(Tensors{parameter}, 0.5, world);
    parameter.set_data(torch::full({300}, 8.0F));
    parameter.mutable_grad() = torch::ones({300});
    optimizer.step();
    EXPECT_TRUE(parameter.detach().equal(torch::full({300}, 7.5F)));
  });
}

// State and pieces belong to elements by their place in memory.
TEST(ShardedOptimizer, RefusesParametersThatGotAnotherLayout) {
  for (const Tensor& other : {torch::ones({20, 30}).t(), torch::ones({30, 40}).narrow(1, 0, 20),
                              torch::ones({60, 20}), torch::ones({3, 20})})
    as_workers(2, [&](World world) {
      Tensor parameter = torch::ones({30, 20}).requires_grad_();
      ShardedOptimizer<torch::optim::SGD> optimizer(Tensors{parameter}, 0.5, world);
      parameter.set_data(other);
      parameter.mutable_grad() = torch::ones_like(other);
      const std::string why = message_of<BadInput>([&] { optimizer.step(); });
      EXPECT_TRUE(has(why, "parameter 0 of group 0 had sizes [30, 20] and strides [20, 1] when"))
          << why;
      EXPECT_TRUE(has(why, "make a new optimizer")) << why;
    });
}

TEST(ShardedOptimizer, RefusesParametersThatShareMemory) {
  as_workers(2, [](World world) {
    const Tensor base = torch::zeros({100});
    const Tensors overlapping = {base.narrow(0, 40, 60).requires_grad_(),
                                 base.narrow(0, 0, 60).requires_grad_()};
    EXPECT_TRUE(has(message_of<BadInput>([&] {
                      ShardedOptimizer<torch::optim::SGD> optimizer(overlapping, 0.5, world);
                    }),
                    "parameter 1 of group 0 and parameter 0 of group 0 share memory"));
    const Tensors beside = {base.narrow(0, 60, 40).requires_grad_(),
                            base.narrow(0, 0, 60).requires_grad_()};
    ShardedOptimizer<torch::optim::SGD> optimizer(beside, 0.5, world);
  });
}

// Autograd refuses to use a graph whose weights have changed.
TEST(ShardedOptimizer, TellsAutogradThatParametersHaveChanged) {
  as_workers(2, [](World world) {
    Tensor parameter = torch::ones({300}).requires_grad_();
    ShardedOptimizer<torch::optim::SGD> optimizer(Tensors{parameter}, 0.5, world);
    const Tensor loss = (parameter * parameter).sum();
    parameter.mutable_grad() = torch::ones({300});
    optimizer.step();
    EXPECT_THROW(loss.backward(), c10::Error);
  });
}

// Several chunks, of which the last is shorter, of several parameters.
TEST(ShardedOptimizer, ExchangesManyParameters) {
  as_workers(3, [](World world) {
    const Tensors parameters = {torch::ones({3000001}), torch::ones({77}),
                                torch::ones({500009}, torch::kDouble)};
    ShardedOptimizer<torch::optim::SGD> optimizer(parameters, 0.5, world);
    for (Tensor parameter : parameters)
      parameter.mutable_grad() = torch::arange(parameter.numel()).to(parameter.scalar_type());
    optimizer.step();
    for (const Tensor& parameter : parameters)
      EXPECT_TRUE(
          parameter.equal(1 - 0.5 * torch::arange(parameter.numel()).to(parameter.scalar_type())));
  });
}

TEST(ShardedOptimizer, TrainsWithDistributedDataParallel) {
  using torch::optim::Adam, torch::optim::AdamOptions;
  const auto trained = [](World world, const auto& make_optimizer) {
    torch::nn::Linear model = seeded(3, [] { return torch::nn::Linear(30, 7); });
    DistributedDataParallel ddp(model, world);
    const auto optimizer = make_optimizer(model->parameters());
    const Tensor x =
        seeded(static_cast<uint64_t>(10 + world.rank()), [] { return torch::randn({4, 30}); });
    for (int step = 0; step < 3; ++step) {
      optimizer->zero_grad();
      ddp(x).pow(2).sum().backward();
      optimizer->step();
    }
    return copies(model->parameters());
  };
  as_workers(3, [&](World world) {
    const Tensors by_itself = trained(world, [](const Tensors& parameters) {
      return std::make_unique<Adam>(parameters, AdamOptions(0.01));
    });
    const Tensors sharded = trained(world, [&](const Tensors& parameters) {
      return std::make_unique<ShardedOptimizer<Adam>>(parameters, AdamOptions(0.01), world);
    });
    expect_same_bits(sharded, by_itself, "with DistributedDataParallel");
  });
}

}  // namespace
}  // namespace lockstep::optimized
