// What DataParallel gains on two asynchronous virtual devices, and what it costs:
//
//   OMP_NUM_THREADS=1 build/release/data_parallel [BATCH] [ROUNDS]
//
// A training step of ResNet-20 by LibTorch's kernels, on images of CIFAR-10's size in host memory:
// on one device of one core and on two of them, in turns. Printed are the best step of each; then
// the phases of a pass, once as the host sees it, which does not wait for devices, and once with
// waits after each phase; and the bytes that are copied.
#include "lockstep/data_parallel.h"

#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "device/allocator.h"
#include "lockstep/virtual_device.h"
#include "model/models.h"

namespace {

using lockstep::DataParallelPass;
using Times = lockstep::DataParallelOptions::Times;

constexpr int64_t kClasses = 10;
constexpr int kSteps = 5;  // in a turn

std::shared_ptr<lockstep::Model> make_resnet20() {
  return lockstep::model::make_model({.name = "resnet20",
                                      .inputs = {{"x", lockstep::Type::f32, {3, 32, 32}}},
                                      .outputs = {{"scores", lockstep::Type::f32, {kClasses}}},
                                      .kernels = lockstep::nn::Kernels::torch},
                                     1);
}

class Trainee {
 public:
  Trainee(int devices, int64_t batch, Times times)
      : x_(torch::randn({batch, 3, 32, 32})), y_(torch::randint(kClasses, {batch})) {
    for (int i = 0; i < devices; ++i) devices_.push_back(lockstep::virtual_device(i));
    const auto model = make_resnet20();
    model->to(devices_.front());
    optimizer_ = std::make_unique<torch::optim::SGD>(model->parameters(),
                                                     torch::optim::SGDOptions(0.01).momentum(0.9));
    parallel_ = std::make_unique<lockstep::DataParallel<lockstep::Model>>(
        model, devices_,
        lockstep::DataParallelOptions{.make_replica = make_resnet20, .times = times});
  }

  void step() {
    optimizer_->zero_grad();
    const torch::Tensor scores = parallel_->forward(lockstep::Tensors(x_)).only();
    torch::nn::functional::cross_entropy(scores, y_.to(devices_.front())).backward();
    optimizer_->step();
    for (const torch::Device device : devices_) lockstep::synchronize(device);
  }

  // Of one step, the fastest of a turn.
  double best_milliseconds() {
    double best = 1e9;
    for (int i = 0; i < kSteps; ++i) {
      const lockstep::Stopwatch watch;
      step();
      if (1000 * watch.seconds() > best) continue;
      best = 1000 * watch.seconds();
      pass_ = parallel_->last();
    }
    return best;
  }

  const DataParallelPass& pass() const { return pass_; }  ///< of the fastest step of the last turn

 private:
  torch::Tensor x_, y_;
  std::vector<torch::Device> devices_;
  std::unique_ptr<torch::optim::SGD> optimizer_;
  std::unique_ptr<lockstep::DataParallel<lockstep::Model>> parallel_;
  DataParallelPass pass_;
};

struct Best {
  double milliseconds = 1e9;
  DataParallelPass pass = {};

  void take_turn(Trainee& trainee) {
    const double time = trainee.best_milliseconds();
    if (time < milliseconds) *this = {time, trainee.pass()};
  }
};

void print_row(const char* phase, double host, double devices, int64_t bytes) {
  std::printf("%-10s %9.2f ms %9.2f ms %11.1f KiB\n", phase, 1000 * host, 1000 * devices,
              static_cast<double>(bytes) / 1024);
}

void print_phases(const DataParallelPass& host, const DataParallelPass& devices) {
  std::printf("%-10s %12s %12s %15s\n", "phase", "host", "with waits", "copied");
  print_row("replicate", host.replicate_seconds, devices.replicate_seconds, host.bytes_replicated);
  print_row("scatter", host.scatter_seconds, devices.scatter_seconds, host.bytes_scattered);
  print_row("forward", host.forward_seconds, devices.forward_seconds, 0);
  print_row("gather", host.gather_seconds, devices.gather_seconds, host.bytes_gathered);
  print_row("reduce", host.reduce_seconds, devices.reduce_seconds, host.bytes_reduced);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t batch = argc > 1 ? std::atoll(argv[1]) : 128;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 7;
  lockstep::keep_freed_memory();
  lockstep::make_virtual_devices(
      {.count = 2, .mode = lockstep::VirtualDeviceOptions::Mode::asynchronous, .cores = 1});
  Trainee alone(1, batch, Times::of_host), both(2, batch, Times::of_host),
      waiting(2, batch, Times::of_devices);
  for (Trainee* const each : {&alone, &both, &waiting}) each->step();
  Best one, two, measured;
  for (int round = 0; round < rounds; ++round) {
    one.take_turn(alone);
    two.take_turn(both);
    measured.take_turn(waiting);
  }
  std::printf("ResNet-20, batch %lld: 1 device %.1f ms, 2 devices %.1f ms, %.2f times as fast\n",
              static_cast<long long>(batch), one.milliseconds, two.milliseconds,
              one.milliseconds / two.milliseconds);
  print_phases(two.pass, measured.pass);
}
