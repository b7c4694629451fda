#include "lockstep/ddp.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "expect_error.h"
#include "lockstep/sync_batch_norm.h"
#include "parallel/worlds.h"

namespace lockstep {
namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("first", first);
    register_module("norm", norm);
    register_module("second", second);
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(norm(torch::relu(first(x)))); }
  torch::nn::Linear first{6, 8};
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({8})};
  torch::nn::Linear second{8, 3};
};
TORCH_MODULE(Net);

struct Samples {
  torch::Tensor x;
  torch::Tensor y;

  Samples part(int rank, int world) const {
    const int64_t each = x.size(0) / world;
    return {x.slice(0, rank * each, (rank + 1) * each), y.slice(0, rank * each, (rank + 1) * each)};
  }
};

Samples samples_of(int64_t count, uint64_t seed) {
  return seeded(seed, [&] {
    return Samples{torch::randn({count, 6}), torch::randint(3, {count}, torch::kLong)};
  });
}

Net net_of(uint64_t seed) {
  return seeded(seed, [] { return Net(); });
}

torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor& y) {
  return torch::cross_entropy_loss(scores, y);
}

std::vector<torch::Tensor> gradients_on_one_worker(const Samples& samples) {
  Net net = net_of(1);
  loss_of(net(samples.x), samples.y).backward();
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : net->parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

void expect_gradients(const torch::nn::Module& net, const std::vector<torch::Tensor>& expected,
                      double tolerance = 1e-6) {
  const auto named = net.named_parameters();
  for (size_t i = 0; i < named.size(); ++i)
    EXPECT_TRUE(torch::allclose(named[i].value().grad(), expected[i], tolerance, tolerance))
        << named[i].key();
}

TEST(Ddp, GivesEveryWorkerTheGradientsOfTheJoinedBatch) {
  const Samples samples = samples_of(12, 7);
  const auto expected = gradients_on_one_worker(samples);
  for (const int world : {1, 2, 3, 4})
    as_workers(world, [&](World everyone) {
      Net net = net_of(1 + static_cast<uint64_t>(everyone.rank()));  // rank 0's is the one
      DistributedDataParallel ddp(net, everyone);
      const Samples mine = samples.part(everyone.rank(), world);
      for (int pass = 0; pass < 3; ++pass) {  // buckets are cut anew after the first
        net->zero_grad();
        loss_of(ddp.forward(mine.x), mine.y).backward();
        expect_gradients(*net, expected);
      }
    });
}

TEST(Ddp, CutsGradientsIntoAsManyBucketsAsAsked) {
  const Samples samples = samples_of(8, 7);
  const auto expected = gradients_on_one_worker(samples);
  as_workers(2, [&](World everyone) {
    Net net = net_of(1);
    DistributedDataParallel ddp(net, everyone, {.first_bucket_bytes = 1, .bucket_bytes = 1});
    const Samples mine = samples.part(everyone.rank(), 2);
    for (int pass = 0; pass < 2; ++pass) {
      for (auto& parameter : net->parameters()) parameter.mutable_grad().reset();
      loss_of(ddp.forward(mine.x), mine.y).backward();
      expect_gradients(*net, expected);
    }
  });
}

TEST(Ddp, TrainsAllWorkersToTheSameBits) {
  const Samples samples = samples_of(32, 3);
  std::vector<torch::Tensor> results(3);
  as_workers(3, [&](World everyone) {
    Net net = net_of(static_cast<uint64_t>(everyone.rank()));
    DistributedDataParallel ddp(net, everyone);
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    const Samples mine = samples.part(everyone.rank(), 3);
    for (int step = 0; step < 10; ++step) {
      optimizer.zero_grad();
      loss_of(ddp.forward(mine.x), mine.y).backward();
      ddp.clip_gradient_norm(0.5);
      optimizer.step();
    }
    results[static_cast<size_t>(everyone.rank())] =
        torch::nn::utils::parameters_to_vector(net->parameters()).detach();
  });
  EXPECT_TRUE(torch::equal(results[0], results[1]));
  EXPECT_TRUE(torch::equal(results[0], results[2]));
}

TEST(Ddp, AddsUpGradientsWhileItIsTold) {
  const Samples samples = samples_of(16, 5);
  as_workers(2, [&](World everyone) {
    const Samples mine = samples.part(everyone.rank(), 2);
    const Samples half = mine.part(0, 2);
    const Samples rest = mine.part(1, 2);
    Net net = net_of(1);
    DistributedDataParallel ddp(net, everyone);
    for (int pass = 0; pass < 2; ++pass) {
      net->zero_grad();
      {
        const auto scope = ddp.no_sync();
        (loss_of(ddp.forward(half.x), half.y) / 2).backward();
      }
      (loss_of(ddp.forward(rest.x), rest.y) / 2).backward();
      expect_gradients(*net, gradients_on_one_worker(samples), 1e-5);
    }
  });
}

TEST(Ddp, StaysPausedUntilTheOutermostScopeEnds) {
  as_workers(2, [&](World everyone) {
    const Samples mine = samples_of(16, 5).part(everyone.rank(), 2);
    Net net = net_of(1);
    DistributedDataParallel ddp(net, everyone);
    Net alone = net_of(1);
    {
      const auto outer = ddp.no_sync();
      {
        const auto inner = ddp.no_sync();
      }
      loss_of(ddp.forward(mine.x), mine.y).backward();
      loss_of(alone(mine.x), mine.y).backward();
      EXPECT_TRUE(torch::equal(net->first->weight.grad(), alone->first->weight.grad()));
    }
  });
}

struct ForkImpl : torch::nn::Module {
  ForkImpl() {
    register_module("left", left);
    register_module("right", right);
    register_module("idle", idle);
  }
  torch::Tensor forward(const torch::Tensor& x, bool go_left) {
    return go_left ? left(x) : right(x);
  }
  torch::nn::Linear left{6, 3}, right{6, 3}, idle{6, 3};
};
TORCH_MODULE(Fork);

TEST(Ddp, FindsParametersThatAreNotUsed) {
  const Samples samples = samples_of(8, 2);
  as_workers(2, [&](World everyone) {
    Fork net = seeded(1, [] { return Fork(); });
    DistributedDataParallel ddp(net, everyone, {.unused = Unused::find});
    for (int pass = 0; pass < 3; ++pass) {
      for (auto& parameter : net->parameters()) parameter.mutable_grad().reset();
      loss_of(ddp.forward(samples.x, everyone.rank() == 0), samples.y).backward();
      EXPECT_TRUE(net->left->weight.grad().defined());
      EXPECT_TRUE(net->right->weight.grad().defined());
      EXPECT_FALSE(net->idle->weight.grad().defined());
      Fork alone = seeded(1, [] { return Fork(); });
      loss_of(alone(samples.x, true), samples.y).backward();
      EXPECT_TRUE(torch::allclose(net->left->weight.grad(), alone->left->weight.grad() / 2));
    }
  });
}

struct WithoutGradient : torch::autograd::Function<WithoutGradient> {
  static torch::Tensor forward(torch::autograd::AutogradContext* /*context*/,
                               const torch::Tensor& x, const torch::Tensor& /*parameter*/) {
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * 2, torch::Tensor()};
  }
};

struct HalfIgnored : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) {
    return WithoutGradient::apply(fc->forward(x), ignored);
  }
  torch::nn::Linear fc = register_module("fc", torch::nn::Linear(6, 1));
  torch::Tensor ignored = register_parameter("ignored", torch::ones({1}));
};

TEST(Ddp, TakesAParameterOfWhichAFunctionReturnsNoGradientForOneThatIsNotUsed) {
  const Samples samples = samples_of(8, 2);
  as_workers(2, [&](World everyone) {
    const auto net = seeded(1, [] { return std::make_shared<HalfIgnored>(); });
    DistributedDataParallel ddp(net, everyone, {.unused = Unused::find});
    for (int pass = 0; pass < 2; ++pass) {
      net->zero_grad();
      ddp.forward(samples.x).sum().backward();
      EXPECT_TRUE(net->fc->weight.grad().defined());
      EXPECT_FALSE(net->ignored.grad().defined());
    }
  });
}

TEST(Ddp, KeepsWhatWasAddedUpBeforeAPassThatDoesNotReachIt) {
  const Samples samples = samples_of(8, 2);
  as_workers(2, [&](World everyone) {
    Fork net = seeded(1, [] { return Fork(); });
    DistributedDataParallel ddp(net, everyone, {.unused = Unused::find});
    const auto weight = static_cast<float>(1 + everyone.rank());
    Fork alone = seeded(1, [] { return Fork(); });
    (loss_of(alone(samples.x, true), samples.y) * 1.5).backward();
    for (int pass = 0; pass < 3; ++pass) {
      if (pass == 2)
        net->zero_grad();  // zeros that are views into buckets
      else
        for (auto& parameter : net->parameters()) parameter.mutable_grad().reset();
      {
        const auto scope = ddp.no_sync();
        (loss_of(ddp.forward(samples.x, true), samples.y) * weight).backward();
      }
      loss_of(ddp.forward(samples.x, false), samples.y).backward();
      EXPECT_TRUE(
          torch::allclose(net->left->weight.grad(), alone->left->weight.grad(), 1e-5, 1e-6));
    }
  });
}

TEST(Ddp, NamesParametersThatAreNotUsed) {
  const Samples samples = samples_of(8, 2);
  const auto errors = errors_of_workers(2, [&](World everyone) {
    Fork net = seeded(1, [] { return Fork(); });
    DistributedDataParallel ddp(net, everyone);
    loss_of(ddp.forward(samples.x, true), samples.y).backward();
  });
  for (const std::string& error : errors) {
    EXPECT_NE(
        error.find("parameters 'right.weight', 'right.bias', 'idle.weight', 'idle.bias' got no "
                   "gradient on rank"),
        std::string::npos)
        << error;
    EXPECT_NE(error.find("Unused::find"), std::string::npos) << error;
  }
}

TEST(Ddp, LetsWorkersHaveFewerBatches) {
  std::vector<torch::Tensor> results(3);
  as_workers(3, [&](World everyone) {
    Net net = net_of(1);
    DistributedDataParallel ddp(net, everyone);
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    const int batches = everyone.rank() * 2;  // 0, 2 and 4
    const auto loop = [&] {
      for (int i = 0; i < batches; ++i) {
        const Samples batch = samples_of(4, static_cast<uint64_t>(10 * i + everyone.rank()));
        optimizer.zero_grad();
        loss_of(ddp.forward(batch.x), batch.y).backward();
        optimizer.step();
      }
    };
    for (int epoch = 0; epoch < 3; ++epoch) ddp.join(loop, {&optimizer});
    results[static_cast<size_t>(everyone.rank())] =
        torch::nn::utils::parameters_to_vector(net->parameters()).detach();
    EXPECT_EQ(optimizer.state().size(), net->parameters().size());
  });
  EXPECT_TRUE(torch::equal(results[0], results[2]));
  EXPECT_TRUE(torch::equal(results[1], results[2]));
}

TEST(Ddp, RefusesToJoinWithSyncBatchNorm) {
  as_workers(2, [](World everyone) {
    torch::nn::Sequential net(torch::nn::Linear(6, 4), nn::SyncBatchNorm(4, everyone));
    DistributedDataParallel ddp(net, everyone);
    expect_bad_input([&] { ddp.join([] {}, {}); }, {"SyncBatchNorm '1'", "Uneven::pad"});
  });
}

TEST(Ddp, NamesJoinWhereItsLoopCallsAnotherCollective) {
  const auto errors = errors_of_workers(2, [](World everyone) {
    Net net = net_of(1);
    DistributedDataParallel ddp(net, everyone);
    ddp.join(
        [&] {
          if (everyone.rank() == 0) return;
          torch::Tensor loss = torch::ones({1});
          everyone.all_reduce(loss);
        },
        {});
  });
  EXPECT_NE(errors[0].find("call no other collective in the loop"), std::string::npos) << errors[0];
}

struct EmbeddedImpl : torch::nn::Module {
  EmbeddedImpl() { register_module("words", words); }
  torch::Tensor forward(const torch::Tensor& x) { return words(x); }
  torch::nn::Embedding words{torch::nn::EmbeddingOptions(10, 4).sparse(true)};
};
TORCH_MODULE(Embedded);

TEST(Ddp, RefusesSparseGradientsByName) {
  const auto errors = errors_of_workers(2, [&](World everyone) {
    Embedded net;
    DistributedDataParallel ddp(net, everyone);
    ddp.forward(torch::tensor({1, 2})).sum().backward();
  });
  for (const std::string& error : errors)
    EXPECT_NE(error.find("parameter 'words.weight' has a sparse gradient"), std::string::npos)
        << error;
}

TEST(Ddp, NamesTheFirstDifferenceBetweenModels) {
  const auto errors = errors_of_workers(2, [&](World everyone) {
    torch::nn::Linear net(4, everyone.rank() == 0 ? 3 : 2);
    DistributedDataParallel ddp(net, everyone);
  });
  for (const std::string& error : errors)
    EXPECT_EQ(error,
              "ranks disagree on parameter 'weight': rank 0 has Float 3x4, rank 1 has Float 2x4");
}

// One step of training, then the model's answer in evaluation.
torch::Tensor evaluated_after_a_step(World& world, Buffers buffers) {
  torch::nn::BatchNorm1d norm(6);
  DistributedDataParallel ddp(norm, world, {.buffers = buffers});
  ddp.forward(samples_of(8, static_cast<uint64_t>(world.rank())).x).sum().backward();
  norm->eval();
  for (int batch = 0; batch < world.rank(); ++batch) ddp.forward(torch::ones({3, 6}));
  return ddp.forward(torch::ones({1, 6}));
}

TEST(Ddp, NamesTheFirstOptionThatDiffersBetweenWorkers) {
  const auto errors = errors_of_workers(2, [](World everyone) {
    Net net = net_of(1);
    DistributedDataParallel ddp(net, everyone,
                                {.shards = 4, .seed = 1 + static_cast<uint64_t>(everyone.rank())});
  });
  for (const std::string& error : errors)
    EXPECT_EQ(error, "ranks disagree on DdpOptions::seed: rank 0 has 1, rank 1 has 2");
}

TEST(Ddp, EvaluatesAlikeOnAllWorkersUnlessTheyKeepTheirBuffers) {
  for (const Buffers buffers : {Buffers::broadcast, Buffers::keep})
    as_workers(3, [&](World everyone) {
      const torch::Tensor own = evaluated_after_a_step(everyone, buffers);
      torch::Tensor first = own.clone();
      everyone.broadcast(first, 0);
      EXPECT_EQ(torch::equal(own, first), buffers == Buffers::broadcast || everyone.rank() == 0);
    });
}

TEST(Ddp, SendsBuffersBeforeAForwardPassWhereTheLastHadNoBackwardPass) {
  as_workers(2, [&](World everyone) {
    torch::nn::BatchNorm1d norm(6);
    DistributedDataParallel ddp(norm, everyone);
    ddp.forward(samples_of(8, static_cast<uint64_t>(everyone.rank())).x);
    torch::Tensor first = norm->running_mean.clone();
    everyone.broadcast(first, 0);
    norm->eval();
    ddp.forward(torch::ones({1, 6}));
    EXPECT_TRUE(torch::equal(norm->running_mean, first));
  });
}

TEST(Ddp, TakesMeansOfHalvesWhoseSumOverflows) {
  struct Half : torch::nn::Module {
    Half() { weight = register_parameter("weight", torch::ones({16}, torch::kHalf)); }
    torch::Tensor forward(float gradient) { return (weight.to(torch::kFloat) * gradient).sum(); }
    torch::Tensor weight;
  };
  as_workers(2, [&](World everyone) {
    auto net = std::make_shared<Half>();
    DistributedDataParallel ddp(net, everyone);
    ddp.forward(everyone.rank() == 0 ? 40000.0F : 60000.0F).backward();
    EXPECT_TRUE(torch::equal(net->weight.grad(), torch::full({16}, 50000.0F).to(torch::kHalf)));
  });
}

TEST(Ddp, SaysWhoMadeTheOthersWait) {
  const Samples samples = samples_of(8, 2);
  as_workers(2, [&](World everyone) {
    Net net = net_of(1);
    DistributedDataParallel ddp(net, everyone);
    for (int step = 0; step < 5; ++step) {
      const torch::Tensor loss = loss_of(ddp.forward(samples.x), samples.y);
      if (everyone.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      loss.backward();
    }
    const StragglerReport report = ddp.stragglers();
    EXPECT_EQ(report.steps, 5);
    EXPECT_EQ(report.ranks[1].steps_late, 5);
    EXPECT_GT(report.ranks[1].seconds_caused, 0.08);
    EXPECT_NE(report.text().find("rank 1 was last in 5 of 5 steps"), std::string::npos);
  });
}

}  // namespace
}  // namespace lockstep
