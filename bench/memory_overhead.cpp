// What counting the CPU's memory costs:
//
//   OMP_NUM_THREADS=1 taskset -c 1 build/release/memory_overhead [BATCH] [ROUNDS]
//
// A training step of the convnet by Lockstep's kernels, on images of Fashion-MNIST's size: short,
// so that allocations count. LibTorch's own allocator and the counting one take turns; printed are
// the milliseconds of each and the ratio: of the best, and the median of the rounds.
#include <c10/core/CPUAllocator.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/clock.h"
#include "device/allocator.h"
#include "lockstep/device_memory.h"
#include "lockstep/lockstep.h"
#include "model/models.h"

namespace {

constexpr int64_t kClasses = 10;
constexpr int kSteps = 10;  // in a turn

class Trainee {
 public:
  explicit Trainee(int64_t batch)
      : model_(
            lockstep::model::make_model({.name = "convnet",
                                         .inputs = {{"x", lockstep::Type::f32, {1, 28, 28}}},
                                         .outputs = {{"scores", lockstep::Type::f32, {kClasses}}},
                                         .kernels = lockstep::nn::Kernels::fused},
                                        1)),
        x_(torch::randn({batch, 1, 28, 28})),
        y_(torch::randint(kClasses, {batch})),
        optimizer_(model_->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9)) {}

  /// Of a step, with an allocator for all that it allocates.
  double milliseconds(c10::Allocator* allocator) {
    constexpr uint8_t kOverOthers = 1;
    c10::SetCPUAllocator(allocator, kOverOthers);
    const lockstep::Stopwatch watch;
    for (int i = 0; i < kSteps; ++i) {
      optimizer_.zero_grad();
      const torch::Tensor scores = model_->forward(lockstep::Tensors(x_)).only();
      torch::nn::functional::cross_entropy(scores, y_).backward();
      optimizer_.step();
    }
    return 1000 * watch.seconds() / kSteps;
  }

 private:
  std::shared_ptr<lockstep::Model> model_;
  torch::Tensor x_, y_;
  torch::optim::SGD optimizer_;
};

}  // namespace

int main(int argc, char** argv) {
  const int64_t batch = argc > 1 ? std::atoll(argv[1]) : 16;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 101;
  lockstep::keep_freed_memory();
  c10::Allocator* const plain = c10::GetCPUAllocator();
  lockstep::limit_cpu_memory(0);
  c10::Allocator* const counting = c10::GetCPUAllocator();
  Trainee trainee(batch);
  trainee.milliseconds(plain);
  trainee.milliseconds(counting);
  std::vector<double> uncounted, counted, ratios;
  for (int round = 0; round < rounds; ++round) {
    uncounted.push_back(trainee.milliseconds(plain));
    counted.push_back(trainee.milliseconds(counting));
    ratios.push_back(counted.back() / uncounted.back());
  }
  std::ranges::sort(ratios);
  const double best = std::ranges::min(uncounted), best_counted = std::ranges::min(counted);
  std::printf("uncounted %.3f ms, counted %.3f ms, ratio %.4f (median of rounds %.4f)\n", best,
              best_counted, best_counted / best, ratios[ratios.size() / 2]);
}
