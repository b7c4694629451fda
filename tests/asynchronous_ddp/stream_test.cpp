// The tests of devices in DistributedDataParallel are part of this program, too, with streams whose
// tasks are delayed at random.
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "base/clock.h"
#include "lockstep/ddp.h"
#include "lockstep/virtual_device.h"
#include "parallel/worlds.h"

namespace lockstep {
namespace {

using torch::Tensor;

TEST(Copies, TakeAsLongAsTheirModelSays) {
  const Tensor x = torch::zeros({1'000'000}, virtual_device(0));  // 40 ms at 100 MB/s
  const Stopwatch watch;
  x.cpu();
  EXPECT_GE(watch.seconds(), 0.0401);
}

// What rank 0's weights are after some steps on two workers.
Tensor trained(bool on_devices) {
  Tensor weights;
  as_workers(2, [&](World world) {
    const torch::Device device =
        on_devices ? virtual_device(world.rank()) : torch::Device(torch::kCPU);
    auto net = seeded(1, [] {
      return torch::nn::Sequential(torch::nn::Linear(8, 64), torch::nn::Tanh(),
                                   torch::nn::Linear(64, 64), torch::nn::Tanh(),
                                   torch::nn::Linear(64, 1));
    });
    net->to(device);
    const Tensor x = seeded(2, [] { return torch::randn({8, 8}); })
                         .slice(0, 4 * world.rank(), 4 * world.rank() + 4)
                         .to(device);
    DistributedDataParallel ddp(net, world, {.first_bucket_bytes = 256, .bucket_bytes = 1024});
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    for (int step = 0; step < 10; ++step) {
      optimizer.zero_grad();
      ddp(x).pow(2).mean().backward();
      optimizer.step();
    }
    if (world.rank() == 0)
      weights =
          torch::cat({net->parameters()[0].flatten().cpu(), net->parameters()[4].flatten().cpu()});
  });
  return weights;
}

TEST(AsynchronousDdp, GivesTheBitsOfTheCpuWhileStreamsAreDelayed) {
  EXPECT_TRUE(trained(true).equal(trained(false)));
}

// The worker's error is told to the others before they use its gradients.
TEST(AsynchronousDdp, EndsAllWorkersIfADeviceFails) {
  const auto errors = errors_of_workers(2, [](World world) {
    const torch::Device device = virtual_device(world.rank());
    torch::nn::Linear net(4, 3);
    net->to(device);
    DistributedDataParallel ddp(net, world);
    const Tensor x = torch::ones({2, 4}, device);
    for (const int64_t label : {0, 0, world.rank() == 0 ? 7 : 0}) {
      const Tensor y = torch::full({2}, label, torch::kLong).to(device);
      torch::cross_entropy_loss(ddp(x), y).backward();
    }
    ADD_FAILURE() << "rank " << world.rank() << " has gradients";
  });
  EXPECT_NE(errors[0].find("out of bounds"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1].find("out of bounds"), std::string::npos) << errors[1];
}

}  // namespace
}  // namespace lockstep
