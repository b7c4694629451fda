// What a virtual device costs beside the CPU, and what two asynchronous ones gain:
//
//   OMP_NUM_THREADS=1 taskset -c 1 build/release/virtual_overhead inlined [BATCH] [ROUNDS]
//   OMP_NUM_THREADS=1 taskset -c 1 build/release/virtual_overhead asynchronous [BATCH] [ROUNDS]
//   OMP_NUM_THREADS=1 build/release/virtual_overhead two [BATCH] [ROUNDS]
//
// A training step of ResNet-20 by LibTorch's kernels, on images of CIFAR-10's size. In the first
// two the CPU and a virtual device take turns. In the last, one thread of the host asks two
// asynchronous devices for a step each: one device after the other, and both at once, in turns.
// Printed are the milliseconds of each and the ratio: of the best, and the median of the rounds.
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>

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

  void step() {
    optimizer_->zero_grad();
    const torch::Tensor scores = model_->forward(lockstep::Tensors(x_)).only();
    torch::nn::functional::cross_entropy(scores, y_).backward();
    optimizer_->step();
  }

  void wait() const {
    if (!x_.device().is_cpu()) lockstep::synchronize(x_.device());
  }

 private:
  std::shared_ptr<lockstep::Model> model_;
  torch::Tensor x_, y_;
  std::unique_ptr<torch::optim::SGD> optimizer_;
};

double milliseconds(Trainee& trainee) {
  const lockstep::Stopwatch watch;
  for (int i = 0; i < kSteps; ++i) trainee.step();
  trainee.wait();
  return 1000 * watch.seconds() / kSteps;
}

double one_after_the_other(Trainee& one, Trainee& other) {
  const lockstep::Stopwatch watch;
  for (int i = 0; i < kSteps; ++i)
    for (Trainee* const each : {&one, &other}) {
      each->step();
      each->wait();
    }
  return 1000 * watch.seconds() / kSteps;
}

double both_at_once(Trainee& one, Trainee& other) {
  const lockstep::Stopwatch watch;
  for (int i = 0; i < kSteps; ++i) {
    one.step();
    other.step();
    one.wait();
    other.wait();
  }
  return 1000 * watch.seconds() / kSteps;
}

struct Way {
  const char* name;
  std::function<double()> milliseconds;
};

void compare(const Way& base, const Way& other, int rounds) {
  base.milliseconds();
  other.milliseconds();
  std::vector<double> first, second, ratios;
  for (int round = 0; round < rounds; ++round) {
    first.push_back(base.milliseconds());
    second.push_back(other.milliseconds());
    ratios.push_back(second.back() / first.back());
  }
  std::ranges::sort(ratios);
  const double best = std::ranges::min(first), best_other = std::ranges::min(second);
  std::printf("%s %.2f ms, %s %.2f ms, ratio %.3f (median of rounds %.3f)\n", base.name, best,
              other.name, best_other, best_other / best, ratios[ratios.size() / 2]);
}

}  // namespace

int main(int argc, char** argv) {
  using Mode = lockstep::VirtualDeviceOptions::Mode;
  const std::string_view what = argc > 1 ? argv[1] : "inlined";
  const int64_t batch = argc > 2 ? std::atoll(argv[2]) : 32;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 11;
  lockstep::keep_freed_memory();
  const bool two = what == "two";
  lockstep::make_virtual_devices(
      {.count = two ? 2 : 1, .mode = what == "inlined" ? Mode::inlined : Mode::asynchronous});
  Trainee on_device(lockstep::virtual_device(0), batch);
  Trainee beside(two ? lockstep::virtual_device(1) : torch::Device(torch::kCPU), batch);
  if (two)
    compare({"one after the other", [&] { return one_after_the_other(on_device, beside); }},
            {"both at once", [&] { return both_at_once(on_device, beside); }}, rounds);
  else
    compare({"cpu", [&] { return milliseconds(beside); }},
            {"virtual device", [&] { return milliseconds(on_device); }}, rounds);
}
