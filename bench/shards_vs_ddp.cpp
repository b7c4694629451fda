// What a step by shards costs beside plain data parallelism, where every worker has one shard:
//
//   lockstep run -n 2 -- build/release/shards_vs_ddp [BATCH] [ROUNDS]
//
// ResNet-20 on images of CIFAR-10's size, BATCH a worker (default 32). The trainer's step and a
// user's loop with DistributedDataParallel, both with our kernels and the same all-reduce, take
// turns; printed are the milliseconds of each, and the ratio of the best.
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "base/clock.h"
#include "collective/communicator.h"
#include "device/allocator.h"
#include "lockstep/lockstep.h"
#include "model/models.h"
#include "objective/objectives.h"
#include "train/step.h"

namespace {

constexpr int kSteps = 10;  // in a turn
constexpr int64_t kClasses = 10;

lockstep::Fields fields() {
  lockstep::Fields all{{{"x", lockstep::Type::f32, {3, 32, 32}}}, {{"y", lockstep::Type::i64, {}}}};
  all.targets[0].categories.assign(kClasses, "");
  return all;
}

std::shared_ptr<lockstep::Model> resnet20() {
  return lockstep::model::make_model({.name = "resnet20",
                                      .inputs = fields().inputs,
                                      .outputs = {{"scores", lockstep::Type::f32, {kClasses}}}},
                                     1);
}

double milliseconds(const auto& step) {
  const lockstep::Stopwatch watch;
  for (int i = 0; i < kSteps; ++i) step();
  return 1000 * watch.seconds() / kSteps;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace lockstep;
  World world = init(argc, argv);
  const int64_t batch = argc > 1 ? std::atoll(argv[1]) : 32;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 10;
  keep_freed_memory();

  const torch::Tensor x = torch::randn({batch, 3, 32, 32});
  const torch::Tensor y = torch::randint(10, {batch});
  const auto bytes = [](const torch::Tensor& tensor) {
    return std::span(static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes());
  };
  const std::vector<int64_t> samples(static_cast<size_t>(batch), 0);
  const std::vector<int64_t> items(static_cast<size_t>(batch), 1);
  const data::LoadedBatch share = {.whole = batch * world.size(),
                                   .whole_items = batch * world.size(),
                                   .begin = batch * world.rank(),
                                   .samples = samples,
                                   .items = items,
                                   .fields = {bytes(x), bytes(y)}};

  Recipe recipe;
  recipe.train.batch = share.whole;
  recipe.optimizer.lr = 0.01;
  train::Step by_shards(
      recipe, {.model = {parallel::ModelPart(resnet20())},
               .parameters = {},
               .objective = objective::make_objective("classification", {.fields = fields()}),
               .batches = std::make_shared<train::DeviceBatches>(torch::kCPU, fields()),
               .schedule = optim::Schedule(recipe.schedule, recipe.optimizer.lr, 1000, 100),
               .shards = collective::Shards::even(world.size(), world.size()),
               .grid = std::make_shared<parallel::Grid>(world, pipeline::PipelineShape{}),
               .world = world});
  int64_t step = 0;
  observe::SpanTimes spans;
  const auto shards = [&] { by_shards.run(share, step++, spans); };

  World others = world.duplicate();
  DistributedDataParallel<Model> ddp(resnet20(), others);
  torch::optim::SGD optimizer(ddp->parameters(),
                              torch::optim::SGDOptions(0.01).momentum(0.9).nesterov(true));
  const auto plain = [&] {
    optimizer.zero_grad();
    const torch::Tensor scores = ddp.forward(Tensors(x)).only();
    const torch::Tensor loss = nn::cross_entropy(scores, y, 0, nn::Kernels::fused);
    loss.backward();
    optimizer.step();
    (void)loss.item<double>();
    (void)scores.argmax(1).eq(y).sum().item<int64_t>();
  };

  double best_shards = std::numeric_limits<double>::max(), best_plain = best_shards;
  milliseconds(shards);
  milliseconds(plain);
  for (int round = 0; round < rounds; ++round) {
    world.barrier();
    best_shards = std::min(best_shards, milliseconds(shards));
    world.barrier();
    best_plain = std::min(best_plain, milliseconds(plain));
  }
  if (world.rank() == 0)
    std::printf("by shards %.2f ms, plain %.2f ms, ratio %.3f\n", best_shards, best_plain,
                best_shards / best_plain);
}
