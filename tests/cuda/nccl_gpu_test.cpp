// NCCL itself between real GPUs, a thread for each. Skipped where there is none; then it only
// shows that everything links.
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "collective/communicator.h"
#include "transport/carriers.h"
#include "transport/nccl.h"
#include "transport/ranks.h"

namespace lockstep::cuda {
namespace {

using collective::Buffer;
using collective::Communicator;
using transport::Place;

class NcclOnGpus : public ::testing::Test {
 protected:
  void SetUp() override {
    gpus = std::min(4, static_cast<int>(torch::cuda::device_count()));
    if (gpus == 0) GTEST_SKIP() << "LibTorch finds no CUDA device here";
  }

  void in_group(const std::function<void(Communicator&, c10::Device)>& rank_main) const {
    EXPECT_EQ(transport::errors_of_ranks(
                  gpus,
                  [&](transport::Rendezvous& rendezvous) {
                    const c10::Device device(c10::kCUDA,
                                             static_cast<c10::DeviceIndex>(rendezvous.rank()));
                    const c10::DeviceGuard on_device(device);
                    Communicator group(
                        transport::connect_nccl(
                            rendezvous, transport::connect_over("shm", rendezvous),
                            transport::device_queues().at("cuda").make(rendezvous.rank())),
                        {.timeout_seconds = 60});
                    rank_main(group, device);
                    rendezvous.gather("");
                  }),
              transport::no_errors(gpus));
  }

  static Buffer buffer_of(const at::Tensor& tensor) {
    return {static_cast<std::byte*>(tensor.data_ptr()), tensor.numel(), Type::f32,
            tensor.is_cuda() ? Place::device : Place::host};
  }

  int gpus = 0;
};

TEST_F(NcclOnGpus, GiveTheSameBitsAsHostMemory) {
  in_group([&](Communicator& group, c10::Device device) {
    for (const auto& row : collective::algorithms()) {
      if (!row->canonical) continue;
      group.choose([&](int64_t) { return collective::Algorithm(*row); });
      const at::Tensor host = torch::randn({100'001});
      const at::Tensor bucket = host.to(device);
      group.all_reduce(buffer_of(host), Operation::mean);
      const auto pending = group.all_reduce_async(buffer_of(bucket), Operation::mean);
      pending.wait();
      EXPECT_TRUE(bucket.cpu().equal(host)) << row->name;
    }
  });
}

TEST_F(NcclOnGpus, TheEngineAddsEverything) {
  in_group([&](Communicator& group, c10::Device device) {
    group.choose([](int64_t) { return collective::parse_algorithm("engine"); });
    const at::Tensor bucket = torch::ones({1000}, torch::TensorOptions(device));
    group.all_reduce(buffer_of(bucket));
    EXPECT_TRUE(bucket.cpu().equal(torch::full({1000}, 1.F * group.world_size())));
  });
}

}  // namespace
}  // namespace lockstep::cuda
