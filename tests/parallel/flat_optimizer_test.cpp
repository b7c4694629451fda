#include "parallel/flat_optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>

#include "expect_error.h"
#include "lockstep/error.h"
#include "parallel/worlds.h"

namespace lockstep::parallel {
namespace {

using State = FlatOptimizer::State;

constexpr BucketLimits kTiny = {.first_bytes = 1, .bytes = 1};  // one bucket per parameter
constexpr BucketLimits kUsual = {};

/// A model with parameters of odd sizes and its optimizer, on one worker.
class Trained {
 public:
  Trained(const World& world, const optim::OptimizerOptions& options, State state,
          const BucketLimits& buckets)
      : world_(world),
        net_(seeded(1,
                    [] {
                      return torch::nn::Sequential(torch::nn::Linear(13, 37),
                                                   torch::nn::Linear(37, 1));
                    })),
        replica_(*net_, world_, replica_options(world_.size(), state, buckets),
                 [this](size_t i) { replica_.take(i, Replica::Gradient::dropped); }),
        optimizer_(replica_, options, state) {}

  void compute_gradients(int step) {
    const torch::Tensor x = torch::linspace(-1, 1, 13) * (1 + world_.rank() + step);
    replica_.begin_forward(0, ShardStatistics::Shard::has_samples);
    const torch::Tensor loss = net_->forward(x).sum().pow(2);
    replica_.begin_backward(0);
    loss.backward();
    replica_.end_backward();
    replica_.finish(world_.size());
  }
  void train(int steps) {
    for (int step = 0; step < steps; ++step) {
      compute_gradients(step);
      replica_.scale_gradients(0.7);
      optimizer_.step(1e-3, step + 1);
    }
  }

  const torch::Tensor& values() { return replica_.flat_parameters().values(); }
  FlatOptimizer& optimizer() { return optimizer_; }

 private:
  static ReplicaOptions replica_options(int workers, State state, const BucketLimits& buckets) {
    ReplicaOptions options{.shards = collective::Shards::even(workers, workers),
                           .buckets = buckets,
                           .parameters = ReplicaOptions::ParameterMemory::flat};
    if (state == State::whole) return options;
    options.needed = NeededGradients::own_slice;
    options.parameters = ReplicaOptions::ParameterMemory::exchanged;
    return options;
  }

  World world_;
  torch::nn::Sequential net_;
  Replica replica_;
  FlatOptimizer optimizer_;
};

int64_t numbers_in(const std::vector<FlatOptimizer::Piece>& state) {
  int64_t count = 0;
  for (const auto& piece : state) count += std::ssize(piece.values);
  return count;
}

TEST(FlatOptimizer, WithADividedStateUpdatesAsWithTheWholeStateOnEveryWorker) {
  for (const int workers : {1, 2, 3, 5})
    for (const std::string name : {"sgd", "adamw"})
      for (const BucketLimits& buckets : {kTiny, kUsual})
        as_workers(workers, [&](World world) {
          const optim::OptimizerOptions options{.name = name, .weight_decay = 0.1};
          Trained whole(world, options, State::whole, buckets);
          Trained divided(world.duplicate(), options, State::divided, buckets);
          whole.train(3);
          divided.train(3);
          EXPECT_TRUE(torch::equal(divided.values(), whole.values())) << name << workers;
          EXPECT_EQ(divided.optimizer().is_divided(), workers > 1);
        });
}

TEST(FlatOptimizer, CollectsOnTheFirstWorkerTheStateThatTheOthersKeepInShares) {
  as_workers(3, [](World world) {
    const optim::OptimizerOptions options{.name = "adamw"};
    Trained whole(world, options, State::whole, kTiny);
    Trained divided(world.duplicate(), options, State::divided, kTiny);
    whole.train(2);
    divided.train(2);
    EXPECT_LT(numbers_in(divided.optimizer().state()), numbers_in(whole.optimizer().state()) / 2);
    const auto expected = whole.optimizer().collected();
    const auto collected = divided.optimizer().collected();
    ASSERT_EQ(collected.size(), 2U);
    for (size_t i = 0; i < collected.size(); ++i) {
      EXPECT_EQ(collected[i].name, expected[i].name);
      if (world.rank() > 0) {
        EXPECT_TRUE(collected[i].values.empty());
        continue;
      }
      ASSERT_GE(collected[i].values.size(), expected[i].values.size());
      EXPECT_TRUE(std::ranges::equal(collected[i].values.first(expected[i].values.size()),
                                     expected[i].values));
    }
  });
}

TEST(FlatOptimizer, WhoseUpdateHasFailedIsNotCollected) {
  const auto errors = errors_of_workers(2, [](World world) {
    Trained divided(world, {.name = "sgd"}, State::divided, kTiny);
    divided.compute_gradients(0);
    if (world.rank() == 1) return world.abort("the worker is stopped");
    EXPECT_THROW(divided.optimizer().step(1e-3, 1), PeerLost);
    divided.optimizer().collected();
  });
  EXPECT_TRUE(has(errors[0], "have those of two steps")) << errors[0];
}

}  // namespace
}  // namespace lockstep::parallel
