// What lockstep::Pipeline promises: the results of one worker with the same micro-batches.
#include "lockstep/pipeline.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>

#include "lockstep/sampler.h"
#include "lockstep/sharded_optimizer.h"
#include "parallel/pipelines.h"
#include "temporary_folder.h"

namespace lockstep {
namespace {

// Each worker's weights are others: those of rank 0 count.
template <typename MakeNet>
PipelineResult trained_by(int workers, const MakeNet& make_net, const PipelineOptions& options) {
  PipelineResult of_first;
  std::vector<std::vector<double>> losses(static_cast<size_t>(workers));
  as_workers(workers, [&](World world) {
    PipelineResult own =
        trained_by_pipeline(make_net(1 + static_cast<uint64_t>(world.rank())), world, options);
    losses[static_cast<size_t>(world.rank())] = own.losses;
    if (world.rank() == 0) of_first = std::move(own);
  });
  for (const std::vector<double>& each : losses) EXPECT_EQ(each, losses.front());
  return of_first;
}

TEST(Pipeline, OfAnyStagesScheduleAndSplitHasTheBitsOfOneWorker) {
  const PipelineResult alone = trained_by(1, norm_net, {.micro_batches = 4});
  const auto expect_same = [&](int workers, PipelineOptions options, const std::string& what) {
    options.micro_batches = 4;
    expect_same_bits(trained_by(workers, norm_net, options), alone, what);
  };
  expect_same(2, {}, "1f1b");
  expect_same(3, {.schedule = "gpipe", .split = "3,5"}, "gpipe");
  expect_same(2, {.schedule = "sequential", .split = "2"}, "sequential");
  expect_same(2, {.recompute = true}, "recompute");
  expect_same(2, {.example = pipeline_inputs().narrow(0, 0, 4)}, "measured");
  expect_same(1, {.stages = 3}, "three stages on one worker");
}

TEST(Pipeline, OfInterleavedPartsHasTheBitsOfOneWorker) {
  const auto deep = [](uint64_t seed) {
    return seeded(seed, [] {
      torch::nn::Sequential net;
      for (int i = 0; i < 4; ++i) {
        net->push_back(torch::nn::Linear(6, 6));
        net->push_back(torch::nn::Tanh());
      }
      return net;
    });
  };
  const PipelineResult alone = trained_by(1, deep, {.micro_batches = 4});
  const PipelineOptions interleaved = {.micro_batches = 4, .schedule = "interleaved"};
  expect_same_bits(trained_by(2, deep, interleaved), alone, "two parts on each worker");
}

TEST(Pipeline, MayBeDividedBeforeALayerThatChangesItsInputInPlace) {
  const auto in_place = [](uint64_t seed) {
    return seeded(seed, [] {
      const auto relu = torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true));
      return torch::nn::Sequential(torch::nn::Linear(6, 16), relu, torch::nn::Linear(16, 3));
    });
  };
  const PipelineResult alone = trained_by(1, in_place, {.micro_batches = 4});
  const PipelineOptions divided = {.micro_batches = 4, .split = "1"};
  expect_same_bits(trained_by(2, in_place, divided), alone, "two workers");
  expect_same_bits(trained_by(1, in_place, {.stages = 2, .micro_batches = 4, .split = "1"}), alone,
                   "two stages on one worker");
}

// Images whose channels lie together, then not, and a sum whose gradient is one number expanded.
torch::nn::Sequential net_of_many_strides(uint64_t seed) {
  const auto channels_last = torch::nn::Functional(
      [](const torch::Tensor& x) { return x.contiguous(torch::MemoryFormat::ChannelsLast); });
  return seeded(seed, [&] {
    const auto convolution = [](int64_t from, int64_t to) {
      return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 3).padding(1));
    };
    return torch::nn::Sequential(
        torch::nn::Functional([](const torch::Tensor& x) {
          return (x.view({-1, 6, 1, 1}) * torch::arange(81).view({9, 9}).cos()).clone();
        }),
        convolution(6, 8), torch::nn::BatchNorm2d(8), channels_last, torch::nn::BatchNorm2d(8),
        torch::nn::BatchNorm2d(8), convolution(8, 16),
        torch::nn::Functional([](const torch::Tensor& x) { return x.contiguous(); }),
        torch::nn::BatchNorm2d(16),
        torch::nn::Functional([](const torch::Tensor& x) { return x.sum({2, 3}) / 9; }),
        torch::nn::Linear(16, 3));
  });
}

TEST(Pipeline, HasTheBitsOfOneWorkerWhateverStridesTensorsHave) {
  const PipelineResult alone = trained_by(1, net_of_many_strides, {.micro_batches = 4});
  for (const std::string split : {"2", "3", "4", "5", "6", "7", "8", "9"})
    for (const bool recompute : {false, true})
      expect_same_bits(trained_by(2, net_of_many_strides,
                                  {.micro_batches = 4, .split = split, .recompute = recompute}),
                       alone,
                       fmt::format("divided before layer {}, recompute {}", split, recompute));
}

TEST(Pipeline, OfSeveralPipelinesHasTheBitsOfOneWithAllMicroBatches) {
  const PipelineResult alone = trained_by(1, norm_net, {.micro_batches = 8});
  expect_same_bits(trained_by(4, norm_net, {.stages = 2, .micro_batches = 4}), alone, "2 x 2");
  expect_same_bits(trained_by(2, norm_net, {.stages = 1, .micro_batches = 4}), alone, "2 x 1");
}

TEST(Pipeline, IsCloseToTrainingWithoutIt) {
  const torch::nn::Sequential net = plain_net(1);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  std::vector<double> losses;
  for (int step = 0; step < 3; ++step) {
    const torch::Tensor loss =
        cross_entropy(torch::nn::Sequential(net)->forward(pipeline_inputs()), pipeline_labels());
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  const PipelineResult piped = trained_by(2, plain_net, {.micro_batches = 4});
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(piped.losses[i], losses[i], 1e-5);
  for (const auto& item : net->named_parameters())
    EXPECT_TRUE(piped.state[item.key()].allclose(item.value(), 1e-4, 1e-5)) << item.key();
}

TEST(Pipeline, HasTheParametersOfItsOwnStagesOnly) {
  as_workers(2, [](World world) {
    torch::nn::Sequential net = plain_net(1);
    const Pipeline pipeline(net, world, {.split = "2"});
    std::vector<std::string> names;
    for (const auto& [name, parameter] : pipeline.named_parameters()) names.push_back(name);
    const auto of = [](const std::string& layer) {
      return std::vector<std::string>{layer + ".weight", layer + ".bias"};
    };
    std::vector<std::string> expected = world.rank() == 0 ? of("0") : of("2");
    if (world.rank() == 1)
      for (const std::string& name : of("4")) expected.push_back(name);
    EXPECT_EQ(names, expected);
    EXPECT_EQ(pipeline.parameters().size(), expected.size());
    EXPECT_EQ(net->named_parameters()["0.weight"].numel(), world.rank() == 0 ? 96 : 0);
    EXPECT_EQ(pipeline.split(), "2");
  });
}

TEST(Pipeline, NeedsInputsOnTheFirstAndTargetsOnTheLastStageOnly) {
  as_workers(3, [](World world) {
    Pipeline pipeline(plain_net(1), world, {.micro_batches = 4});
    const torch::Tensor x = world.rank() == 0 ? pipeline_inputs() : torch::Tensor();
    const torch::Tensor y = world.rank() == 2 ? pipeline_labels() : torch::Tensor();
    int calls = 0;
    pipeline.step(x, y, [&](const torch::Tensor& output, const torch::Tensor& target) {
      ++calls;
      return cross_entropy(output, target);
    });
    EXPECT_EQ(calls, world.rank() == 2 ? 4 : 0);
    EXPECT_EQ(pipeline.forward(x).size(0), kPipelineSamples);
  });
}

TEST(Pipeline, GivesOutputsOfAnyNumberOfSamplesToAllWorkers) {
  torch::nn::Sequential alone = norm_net(1);
  alone->eval();
  const torch::NoGradGuard no_grad;
  as_workers(2, [&](World world) {
    torch::nn::Sequential net = norm_net(1);
    Pipeline pipeline(net, world, {.micro_batches = 4});
    net[1]->eval();  // the user's choice of modes is restored afterwards
    for (const int64_t samples : {16, 7, 1}) {
      const torch::Tensor x = pipeline_inputs().narrow(0, 0, samples);
      EXPECT_TRUE(pipeline.forward(x).allclose(torch::nn::Sequential(alone)->forward(x)));
    }
    EXPECT_FALSE(net[1]->is_training());
    EXPECT_TRUE(net[0]->is_training());
  });
}

TEST(Pipeline, SavesWhatTheModelItselfReads) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "model.pt";
  Tensors state;
  as_workers(3, [&](World world) {
    Pipeline pipeline(norm_net(1), world, {.micro_batches = 4});
    pipeline.step(pipeline_inputs(), pipeline_labels(), cross_entropy);
    pipeline.save_to(path);
    Tensors own = pipeline.state();
    EXPECT_EQ(own.size() > 0, world.rank() == 0);
    if (world.rank() == 0) state = std::move(own);
  });
  torch::nn::Sequential read = norm_net(2);
  torch::load(read, path);
  for (const auto& item : read->named_parameters())
    EXPECT_TRUE(item.value().equal(state[item.key()])) << item.key();
  for (const auto& item : read->named_buffers())
    EXPECT_TRUE(item.value().equal(state[item.key()])) << item.key();
  EXPECT_EQ(state["1.num_batches_tracked"].item<int64_t>(), 1);
}

TEST(Pipeline, ClipsTheNormOfTheWholeModelsGradients) {
  std::vector<std::vector<double>> norms(2);
  for (const int workers : {1, 2})
    as_workers(workers, [&](World world) {
      Pipeline pipeline(plain_net(1), world, {.micro_batches = 4});
      pipeline.step(pipeline_inputs(), pipeline_labels(), cross_entropy);
      const double before = pipeline.clip_gradient_norm(0.01);
      const double after = pipeline.clip_gradient_norm(1);
      EXPECT_NEAR(after, 0.01, 1e-6);
      if (world.rank() == 0) norms[static_cast<size_t>(workers - 1)] = {before, after};
    });
  EXPECT_EQ(norms[0], norms[1]);
}

// Passes a residual on as a second tensor, and has two outputs.
struct TwoTensors : SequentialModel {
  TwoTensors() {
    const auto first = register_module("first", torch::nn::Linear(6, 6));
    const auto second = register_module("second", torch::nn::Linear(6, 6));
    add_layer("first", {"first"}, [first](const Tensors& x) {
      return Tensors{{"x", x["left"]}, {"y", first->forward(x["right"])}};
    });
    add_layer("second", {"second"}, [second](const Tensors& x) {
      const torch::Tensor y = second->forward(x["y"].tanh()) + x["x"];
      return Tensors{{"sum", y.sum(1)}, {"all", y}};
    });
  }
};

TEST(Pipeline, OfASequentialModelTakesAndReturnsNamedTensors) {
  PipelineResult alone;
  for (const int workers : {1, 2})
    as_workers(workers, [&](World world) {
      const auto net = seeded(1, [] { return std::make_shared<TwoTensors>(); });
      Pipeline pipeline(net, world, {.micro_batches = 2});
      const Tensors inputs = {{"left", pipeline_inputs()}, {"right", pipeline_inputs().cos()}};
      const Tensors targets = pipeline_inputs();
      PipelineResult result;
      result.losses.push_back(
          pipeline.step(inputs, targets, [](const Tensors& outputs, const Tensors& expected) {
            return torch::mse_loss(outputs["all"], expected.only()) + outputs["sum"].mean();
          }));
      torch::optim::SGD(pipeline.parameters(), 0.1).step();
      EXPECT_EQ(pipeline.forward(inputs)["sum"].sizes(), std::vector<int64_t>{kPipelineSamples});
      result.state = pipeline.state();
      if (world.rank() > 0) return;
      if (workers == 1)
        alone = std::move(result);
      else
        expect_same_bits(result, alone, "two workers");
    });
}

TEST(Pipeline, TellsWhichWorkersTrainTheSameStage) {
  as_workers(4, [](World world) {
    Pipeline pipeline(plain_net(1), world, {.stages = 2, .micro_batches = 2});
    World replicas = pipeline.replicas();
    EXPECT_EQ(replicas.size(), 2);
    EXPECT_EQ(replicas.rank(), world.rank() / 2);
    DistributedSampler sampler(kPipelineSamples, replicas);
    ShardedOptimizer<torch::optim::AdamW> optimizer(pipeline.parameters(), 0.01, replicas);
    const std::vector<size_t> own = *sampler.next(4);
    const auto index = torch::tensor(std::vector<int64_t>(own.begin(), own.end()));
    pipeline.step(pipeline_inputs().index({index}), pipeline_labels().index({index}),
                  cross_entropy);
    optimizer.step();
    const torch::Tensor weight = pipeline.parameters().front().detach().clone();
    const torch::Tensor all = replicas.all_gather(weight);
    EXPECT_TRUE(all[0].equal(all[1]));
  });
}

TEST(Pipeline, DividesParametersEvenlyIfItCannotMeasure) {
  as_workers(3, [](World world) {
    torch::nn::Sequential net(torch::nn::Flatten(), torch::nn::Linear(6, 4), torch::nn::ReLU(),
                              torch::nn::Linear(4, 100), torch::nn::ReLU(), torch::nn::Dropout(),
                              torch::nn::Linear(100, 3));
    EXPECT_EQ(Pipeline(net, world).split(), "3,6");
  });
}

TEST(Pipeline, LeavesTheGeneratorOfRandomNumbersAsItWas) {
  const auto random_net = [](uint64_t seed) {
    return seeded(seed, [] {
      return torch::nn::Sequential(torch::nn::Linear(6, 16), torch::nn::Linear(16, 16),
                                   torch::nn::Dropout(0.5), torch::nn::Linear(16, 3));
    });
  };
  as_workers(1, [&](World world) {
    Pipeline pipeline(random_net(1), world, {.stages = 2, .micro_batches = 4, .split = "1"});
    torch::manual_seed(7);
    const torch::Tensor expected = torch::randperm(100);
    torch::manual_seed(7);
    pipeline.step(pipeline_inputs(), pipeline_labels(), cross_entropy);
    EXPECT_TRUE(torch::randperm(100).equal(expected));
  });
}

TEST(Pipeline, LeavesModulesInTheModesThatTheyHaveWhenItMeasures) {
  as_workers(1, [](World world) {
    torch::nn::Sequential net = norm_net(1);
    net[1]->as<torch::nn::BatchNorm1d>()->eval();
    const Pipeline pipeline(
        net, world,
        {.stages = 2, .micro_batches = 4, .example = pipeline_inputs().narrow(0, 0, 4)});
    EXPECT_FALSE(net[1]->as<torch::nn::BatchNorm1d>()->is_training());
    EXPECT_TRUE(net[0]->as<torch::nn::Linear>()->is_training());
  });
}

TEST(Pipeline, LeavesGradientsThatDoNotAccumulate) {
  as_workers(1, [](World world) {
    Pipeline pipeline(plain_net(1), world, {.micro_batches = 4});
    const auto gradient = [&] {
      pipeline.step(pipeline_inputs(), pipeline_labels(), cross_entropy);
      return pipeline.parameters().front().grad().clone();
    };
    EXPECT_TRUE(gradient().equal(gradient()));
  });
}

}  // namespace
}  // namespace lockstep
