// What a virtual device costs beside the CPU:
//
//   OMP_NUM_THREADS=1 taskset -c 1 build/release/virtual_overhead [BATCH] [ROUNDS]
//
// A training step of ResNet-20 by LibTorch's kernels, on images of CIFAR-10's size. The CPU and a
// virtual device take turns; printed are the milliseconds of each and the ratio: of the best, and
// the median of the rounds.
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/clock.h"
#include "device/allocator.h"
#include "lockstep/lockstep.h"
#include "lockstep/virtual_device.h"
#include "model/models.h"

namespace {

constexpr int64_t kClasses = 10;
constexpr int kSteps = 5;  // in a turn

class Trainee {
 public:
  Trainee(torch::Device device, int64_t batch)
      : model_(
            lockstep::model::make_model({.name = "resnet20",
                                         .inputs = {{"x", lockstep::Type::f32, {3, 32, 32}}},
                                         .outputs = {{"scores", lockstep::Type::f32, {kClasses}}},
                                         .kernels = lockstep::nn::Kernels::torch},
                                        1)),
        x_(torch::randn({batch, 3, 32, 32}).to(device)),
        y_(torch::randint(kClasses, {batch}).to(device)) {
    model_->to(device);
    optimizer_ = std::make_unique<torch::optim::SGD>(model_->parameters(),
                                                     torch::optim::SGDOptions(0.01).momentum(0.9));
  }

  double milliseconds() {
    const lockstep::Stopwatch watch;
    for (int i = 0; i < kSteps; ++i) {
      optimizer_->zero_grad();
      const torch::Tensor scores = model_->forward(lockstep::Tensors(x_)).only();
      torch::nn::functional::cross_entropy(scores, y_).backward();
      optimizer_->step();
    }
    return 1000 * watch.seconds() / kSteps;
  }

 private:
  std::shared_ptr<lockstep::Model> model_;
  torch::Tensor x_, y_;
  std::unique_ptr<torch::optim::SGD> optimizer_;
};

}  // namespace

int main(int argc, char** argv) {
  const int64_t batch = argc > 1 ? std::atoll(argv[1]) : 32;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 11;
  lockstep::keep_freed_memory();
  lockstep::make_virtual_devices({.count = 1});
  Trainee on_cpu(torch::kCPU, batch), on_device(lockstep::virtual_device(0), batch);
  on_cpu.milliseconds();
  on_device.milliseconds();
  std::vector<double> cpu, device, ratios;
  for (int round = 0; round < rounds; ++round) {
    cpu.push_back(on_cpu.milliseconds());
    device.push_back(on_device.milliseconds());
    ratios.push_back(device.back() / cpu.back());
  }
  std::ranges::sort(ratios);
  const double best_cpu = std::ranges::min(cpu), best_device = std::ranges::min(device);
  std::printf("cpu %.2f ms, virtual device %.2f ms, ratio %.3f (median of rounds %.3f)\n", best_cpu,
              best_device, best_device / best_cpu, ratios[ratios.size() / 2]);
}
