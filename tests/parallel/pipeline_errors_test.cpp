// What lockstep::Pipeline refuses, and what becomes of all workers when a step fails on one of
// them.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "base/clock.h"
#include "expect_error.h"
#include "lockstep/pipeline.h"
#include "lockstep/sync_batch_norm.h"
#include "parallel/pipelines.h"

namespace lockstep {
namespace {

template <typename Net>
void expect_refused(int workers, const Net& make_net, const PipelineOptions& options,
                    std::initializer_list<std::string> parts) {
  as_workers(workers, [&](World world) {
    expect_bad_input([&] { Pipeline(make_net(), world, options); }, parts);
    world.barrier();  // all have thrown, and the world is as good as before
  });
}

torch::nn::Sequential some_net() {
  return plain_net(1);
}

TEST(PipelineErrors, NameOptionsThatCannotBe) {
  expect_refused(3, some_net, {.stages = 2}, {"3 workers", "pipelines of 2 stages", "multiple"});
  expect_refused(1, some_net, {.stages = 7}, {"6 layers", "7 parts", "at most 3 parts"});
  expect_refused(1, some_net, {.split = "2"},
                 {"PipelineOptions::split 2: names 1 layer", "set PipelineOptions::stages = 2"});
  expect_refused(1, some_net, {.stages = 4}, {"6 layers", "trained parameters", "at most 3 parts"});
  expect_refused(2, some_net, {.split = "2,4"}, {"PipelineOptions::split 2,4", "3 parts"});
  expect_refused(2, some_net, {.split = "nine"},
                 {"PipelineOptions::split nine", "no layer", "0 (Linear), 1 (ReLU), 2 (Linear)"});
  expect_refused(2, some_net, {.split = "5"},
                 {"PipelineOptions::split 5: part 1 (layer 5)", "no trained parameters",
                  "PipelineOptions::split 2 would do"});
  expect_refused(2, some_net, {.split = "0"}, {"part 0 would have no layers"});
  expect_refused(2, some_net, {.micro_batches = 0}, {"0 micro-batches"});
  expect_refused(2, some_net, {.schedule = "2f2b"}, {"2f2b", "pipeline schedule", "1f1b"});
  expect_refused(2, some_net, {.micro_batches = 3, .schedule = "interleaved"}, {"multiple"});
  expect_refused(1, some_net, {.stages = 3, .devices = {torch::kCPU, torch::kCPU}},
                 {"2 devices", "3 stages"});
}

struct Tangled : torch::nn::Module {};

TEST(PipelineErrors, NameModelsThatCannotBeDivided) {
  const auto tied = [] {
    torch::nn::Linear first(6, 6);
    return torch::nn::Sequential(first, torch::nn::Linear(6, 6), first);
  };
  expect_refused(2, tied, {}, {"3 layers", "share weights", "at most 1 part"});
  expect_refused(2, tied, {.split = "1"},
                 {"layers 0 and 2 share parameter '0.weight'", "share weights"});
  for (const bool has_parameters : {false, true})
    expect_refused(1,
                   [&] {
                     torch::nn::Sequential net;
                     net->push_back(torch::nn::ReLU());
                     net->push_back(torch::nn::Tanh());
                     if (has_parameters) net->push_back(torch::nn::Linear(6, 6));
                     for (const torch::Tensor& each : net->parameters())
                       each.set_requires_grad(false);
                     return net;
                   },
                   {.stages = 2, .example = pipeline_inputs()}, {"without trained parameters"});
  expect_refused(1, tied, {.recompute = true}, {"PipelineOptions::recompute"});
  expect_refused(1, [] { return std::make_shared<Tangled>(); }, {},
                 {"Tangled", "torch::nn::Sequential", "lockstep::SequentialModel"});
  expect_refused(1, [] { return torch::nn::Sequential(nullptr); }, {}, {"no model"});
  expect_refused(1, [] { return torch::nn::Sequential(); }, {}, {"without layers"});
}

TEST(PipelineErrors, NameWorkersThatDiffer) {
  as_workers(2, [](World world) {
    const int own = world.rank() + 2;
    EXPECT_TRUE(
        has(message_of<Mismatch>([&] { Pipeline(some_net(), world, {.micro_batches = own}); }),
            "PipelineOptions::micro_batches"));
    EXPECT_TRUE(has(message_of<Mismatch>([&] {
                      Pipeline(
                          torch::nn::Sequential(torch::nn::Linear(own, 2), torch::nn::Linear(2, 2)),
                          world);
                    }),
                    "'0.weight'"));
  });
}

TEST(PipelineErrors, OfOneWorkersDevicesReachTheOthers) {
  as_workers(2, [](World world) {
    PipelineOptions options;
    if (world.rank() == 1) options.devices = {torch::kCPU, torch::kCPU};
    const std::string message = message_of<Error>([&] { Pipeline(some_net(), world, options); });
    EXPECT_TRUE(has(message, "2 devices")) << message;
  });
}

TEST(PipelineErrors, OfSyncBatchNormNameIt) {
  as_workers(2, [](World world) {
    torch::nn::Sequential net(torch::nn::Linear(6, 6), nn::SyncBatchNorm(6, world),
                              torch::nn::Linear(6, 6));
    expect_bad_input([&] { Pipeline(net, world); }, {"SyncBatchNorm '1'", "per micro-batch"});
  });
}

TEST(PipelineErrors, OfBatchesNameTheirSizes) {
  as_workers(1, [](World world) {
    Pipeline pipeline(plain_net(1), world, {.micro_batches = 3});
    expect_bad_input([&] { pipeline.step(pipeline_inputs(), pipeline_labels(), cross_entropy); },
                     {"16 samples", "3 equal micro-batches", "PipelineOptions::micro_batches"});
  });
}

TEST(PipelineErrors, OfABatchOnTheOnlyWorkerLeaveThePipelineUsable) {
  as_workers(1, [](World world) {
    Pipeline pipeline(plain_net(1), world, {.stages = 2, .micro_batches = 4});
    const auto step = [&](int64_t samples) {
      pipeline.step(pipeline_inputs().narrow(0, 0, samples),
                    pipeline_labels().narrow(0, 0, samples), cross_entropy);
    };
    expect_bad_input([&] { step(15); }, {"15 samples"});
    EXPECT_NO_THROW(step(16));
  });
}

TEST(PipelineErrors, OfLibTorchNameTheLayerTheStageAndTheMicroBatch) {
  const auto message = [](torch::nn::Sequential net, PipelineOptions options) {
    std::string text;
    as_workers(1, [&](World world) {
      text = message_of<Error>([&] {
        Pipeline pipeline(net, world, options);
        pipeline.step(pipeline_inputs(), pipeline_labels(), cross_entropy);
      });
    });
    return text;
  };
  const std::string of_layer = message(norm_net(1), {.stages = 2, .micro_batches = 16});
  for (const std::string part : {"Expected more than 1 value per channel", "layer 1 (BatchNorm1d)",
                                 "stage 0 (", "forward pass", "micro-batch of 1 sample"})
    EXPECT_TRUE(has(of_layer, part)) << of_layer;
  EXPECT_FALSE(has(of_layer, "frame #")) << of_layer;
  torch::nn::Sequential narrow(torch::nn::Linear(6, 3), torch::nn::Linear(3, 1));
  const std::string of_loss = message(narrow, {.stages = 2, .micro_batches = 4});
  for (const std::string part : {"in the loss function", "stage 1 (", "micro-batch of 4 samples"})
    EXPECT_TRUE(has(of_loss, part)) << of_loss;
  const std::string of_example =
      message(plain_net(1), {.stages = 2, .example = torch::ones({4, 5})});
  for (const std::string part : {"PipelineOptions::example", "layer 0 (Linear)", "cannot be multi"})
    EXPECT_TRUE(has(of_example, part)) << of_example;
}

TEST(PipelineErrors, OfBatchesWithOtherNumbersOfSamplesInXThanInYNameBoth) {
  const auto message = [](World world, int64_t of_x, int64_t of_y) {
    Pipeline pipeline(plain_net(1), world, {.micro_batches = 4});
    return message_of<Error>([&] {
      pipeline.step(pipeline_inputs().narrow(0, 0, of_x), pipeline_labels().narrow(0, 0, of_y),
                    [](const torch::Tensor& x, const torch::Tensor&) { return x.mean(); });
    });
  };
  for (const int workers : {1, 2, 3}) {
    as_workers(workers, [&](World world) {
      EXPECT_TRUE(has(message(world, 16, 4), "x has 16 samples, y has 4"));
    });
    as_workers(workers, [&](World world) {
      EXPECT_TRUE(has(message(world, 8, 16), "x has 8 samples, y has 16"));
    });
  }
}

TEST(PipelineErrors, OfParametersWithoutElementsSayHowAModelIsSaved) {
  as_workers(2, [](World world) {
    torch::nn::Sequential net = plain_net(1);
    {
      const Pipeline pipeline(net, world);
    }
    expect_bad_input(
        [&] { Pipeline(net, world); },
        {world.rank() == 0 ? "'2.weight'" : "'0.weight'", "has no elements", "Pipeline::save_to"});
  });
}

TEST(PipelineErrors, OfInputsThatAreNotThereNameTheRank) {
  for (const Tensors& nothing : {Tensors(), Tensors(torch::Tensor()), Tensors(torch::tensor(1.0))})
    as_workers(1, [&](World world) {
      Pipeline pipeline(plain_net(1), world, {.micro_batches = 4});
      expect_bad_input([&] { pipeline.forward(nothing); }, {"Pipeline::forward on rank 0"});
    });
}

TEST(PipelineErrors, OfLossesSayWhatIsExpected) {
  const auto expect_refused_loss = [](const auto& loss, const std::string& what) {
    as_workers(1, [&](World world) {
      Pipeline pipeline(plain_net(1), world, {.micro_batches = 4});
      expect_bad_input([&] { pipeline.step(pipeline_inputs(), pipeline_labels(), loss); },
                       {what, "take the mean", "do not detach"});
    });
  };
  using torch::Tensor;
  expect_refused_loss([](const Tensor& x, const Tensor&) { return x; }, "shape [4, 3]");
  expect_refused_loss([](const Tensor& x, const Tensor&) { return x.mean().detach(); },
                      "without gradient");
  expect_refused_loss([](const Tensor&, const Tensor&) { return Tensor(); }, "undefined");
}

TEST(PipelineErrors, OfBackwardPassesOutsideOfStepsSayWhatToDo) {
  as_workers(1, [](World world) {
    torch::nn::Sequential net = plain_net(1);
    const Pipeline pipeline(net, world, {.micro_batches = 4});
    expect_bad_input([&] { net->forward(pipeline_inputs()).sum().backward(); },
                     {"outside of Pipeline::step", "torch::autograd::grad"});
  });
}

TEST(PipelineErrors, OfOneWorkersFunctionReachTheOthersAndStay) {
  const Stopwatch watch;
  as_workers(4, [](World world) {
    Pipeline pipeline(plain_net(1), world, {.stages = 2, .micro_batches = 2});
    int calls = 0;
    const auto step = [&] {
      pipeline.step(pipeline_inputs(), pipeline_labels(),
                    [&](const torch::Tensor& output, const torch::Tensor& target) {
                      if (world.rank() == 3 && ++calls == 4)
                        throw std::runtime_error("thrown by a loss");
                      return cross_entropy(output, target);
                    });
    };
    step();
    if (world.rank() == 3)
      EXPECT_THROW(step(), std::runtime_error);
    else
      EXPECT_THROW(step(), PeerLost);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(has(message_of<Error>(step), "thrown by a loss"));
    EXPECT_TRUE(
        has(message_of<Error>([&] { pipeline.forward(pipeline_inputs()); }), "thrown by a loss"));
  });
  EXPECT_LT(watch.seconds(), 15);
}

TEST(PipelineErrors, OfAWorkerThatLeavesReachTheOthers) {
  const Stopwatch watch;
  as_workers(2, [](World world) {
    Pipeline pipeline(plain_net(1), world, {.micro_batches = 2});
    if (world.rank() == 1) return;
    for (int i = 0; i < 2; ++i)
      EXPECT_THROW(pipeline.step(pipeline_inputs(), pipeline_labels(), cross_entropy), PeerLost);
  });
  EXPECT_LT(watch.seconds(), 15);
}

TEST(PipelineErrors, OfMeasuringReachTheOthers) {
  as_workers(2, [](World world) {
    EXPECT_ANY_THROW(Pipeline(plain_net(1), world, {.example = torch::ones({4, 5})}));
    world.barrier();
  });
}

struct TwoResultsImpl : torch::nn::Module {
  std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x) { return {x, x}; }
};
TORCH_MODULE(TwoResults);

TEST(PipelineErrors, OfModulesThatReturnSeveralTensorsNameThem) {
  as_workers(1, [](World world) {
    torch::nn::Sequential net(torch::nn::Linear(6, 3), TwoResults());
    Pipeline pipeline(net, world, {.micro_batches = 4});
    expect_bad_input([&] { pipeline.step(pipeline_inputs(), pipeline_labels(), cross_entropy); },
                     {"module '1'", "TwoResults", "lockstep::SequentialModel"});
  });
}

}  // namespace
}  // namespace lockstep
