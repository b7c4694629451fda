// What counting the CPU's memory costs:
//
//   OMP_NUM_THREADS=1 taskset -c 1 build/release/memory_overhead [BATCH] [ROUNDS]
//
// A training step of the convnet by Lockstep's kernels, on images of Fashion-MNIST's size: short,
// so that allocations count. LibTorch's own allocator, the counting one and LibTorch's again take
// turns; printed are the best milliseconds of CPU time of the first two, and the medians over the
// rounds of the ratios to LibTorch's: of the counting one and, as a control, of LibTorch's own.
#include <c10/core/CPUAllocator.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

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

  /// Of CPU time in a step, with an allocator for all that it allocates.
  double milliseconds(c10::Allocator* allocator) {
    constexpr uint8_t kOverOthers = 1;
    c10::SetCPUAllocator(allocator, kOverOthers);
    const std::clock_t begin = std::clock();
    for (int i = 0; i < kSteps; ++i) {
      optimizer_.zero_grad();
      const torch::Tensor scores = model_->forward(lockstep::Tensors(x_)).only();
      torch::nn::functional::cross_entropy(scores, y_).backward();
      optimizer_.step();
    }
    return 1000.0 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / kSteps;
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
  std::vector<double> uncounted, counted, ratios, control;
  for (int round = 0; round < rounds; ++round) {
    uncounted.push_back(trainee.milliseconds(plain));
    counted.push_back(trainee.milliseconds(counting));
    ratios.push_back(counted.back() / uncounted.back());
    control.push_back(trainee.milliseconds(plain) / uncounted.back());
  }
  const auto median = [](std::vector<double>& values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
  };
  std::printf("uncounted %.3f ms, counted %.3f ms; ratio %.4f, control %.4f\n",
              std::ranges::min(uncounted), std::ranges::min(counted), median(ratios),
              median(control));
}
