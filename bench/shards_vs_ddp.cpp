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
#include "model/model.h"
#include "train/step.h"

namespace {

constexpr int kSteps = 10;  // in a turn
const lockstep::data::Shape kImage = {3, 32, 32};

std::shared_ptr<lockstep::model::Model> resnet20() {
  return lockstep::model::make_model({.name = "resnet20", .input = kImage});
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
  const data::Batch share = {.whole = batch * world.size(),
                             .begin = batch * world.rank(),
                             .values = {x.data_ptr<float>(), static_cast<size_t>(x.numel())},
                             .labels = {y.data_ptr<int64_t>(), static_cast<size_t>(batch)}};

  Recipe recipe;
  recipe.train.batch = share.whole;
  recipe.optimizer.lr = 0.01;
  collective::Communicator& group = world.communicator();
  train::Step by_shards(recipe, resnet20(), kImage,
                        optim::Schedule(recipe.schedule, recipe.optimizer.lr, 1000, 100),
                        {collective::Shards::even(world.size(), world.size()), group});
  int64_t step = 0;
  observe::SpanTimes spans;
  const auto shards = [&] { by_shards.run(share, step++, spans); };

  World others = world.duplicate();
  DistributedDataParallel<model::Model> ddp(resnet20(), others);
  torch::optim::SGD optimizer(ddp->parameters(),
                              torch::optim::SGDOptions(0.01).momentum(0.9).nesterov(true));
  const auto plain = [&] {
    optimizer.zero_grad();
    const torch::Tensor scores = ddp.forward(x);
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
