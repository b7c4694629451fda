// Tensors go by NCCL where their device is the transport's, and through host memory elsewhere. The
// stand-in is libnccl; tensors on the CPU are those of its device.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "cuda/host_device.h"
#include "lockstep/ddp.h"
#include "parallel/every_collective.h"
#include "parallel/worlds.h"
#include "transport/nccl_worlds.h"

namespace lockstep::cuda {
namespace {

using torch::Tensor;

class NcclWorld : public transport::NcclWorlds {
 protected:
  // What each worker threw, whose transport carries the memory of the device of this name.
  std::vector<std::string> errors_of_world(int size, const std::string& device,
                                           const std::function<void(World)>& worker_main) {
    return errors_of_workers(size, worker_main, [&](transport::Rendezvous& rendezvous) {
      return transport::connect_nccl(rendezvous, transport::connect_over("shm", rendezvous),
                                     std::make_unique<HostQueue>(rendezvous.rank(), device, nccl));
    });
  }
  void in_world(int size, const std::string& device,
                const std::function<void(World)>& worker_main) {
    EXPECT_EQ(errors_of_world(size, device, worker_main), transport::no_errors(size));
  }

  size_t messages_of(int rank) {
    size_t count = 0;
    for (const std::string function : {"ncclSend", "ncclRecv"})
      for (const nccl_stand_in::Call& call : nccl.calls_of(function))
        count += call.rank == rank ? 1 : 0;
    return count;
  }

  static Tensor tensor_of(const World& world) {
    return torch::arange(2 * world.size()).view({world.size(), 2}).to(torch::kFloat) / 3 +
           10 * world.rank();
  }

  // By rank, by collective. Messages by NCCL that were sent or received in each are counted.
  using Results = std::vector<std::vector<Tensor>>;
  Results results_in(const std::string& device, int size, std::vector<size_t>& messages) {
    Results results(static_cast<size_t>(size));
    messages.assign(every_collective().size(), 0);
    std::mutex mutex;
    in_world(size, device, [&](World world) {
      for (size_t i = 0; i < messages.size(); ++i) {
        const size_t before = messages_of(world.rank());
        const Tensor result = every_collective()[i].result(world, tensor_of(world));
        results[static_cast<size_t>(world.rank())].push_back(result);
        const std::lock_guard lock(mutex);
        messages[i] += messages_of(world.rank()) - before;
      }
    });
    return results;
  }
};

void expect_equal(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), expected[i].defined()) << i;
    if (got[i].defined()) EXPECT_TRUE(got[i].equal(expected[i])) << i << got[i] << expected[i];
  }
}

TEST_F(NcclWorld, CarriesTensorsOfItsDeviceInEveryCollectiveAndNoOthers) {
  for (const int size : {2, 3}) {
    std::vector<size_t> by_nccl;
    std::vector<size_t> by_host;
    const Results on_its_device = results_in("cpu", size, by_nccl);
    const Results elsewhere = results_in("cuda:0", size, by_host);
    for (size_t rank = 0; rank < on_its_device.size(); ++rank)
      expect_equal(on_its_device[rank], elsewhere[rank]);
    for (size_t i = 0; i < by_nccl.size(); ++i) {
      EXPECT_GT(by_nccl[i], 0U) << every_collective()[i].name;
      EXPECT_EQ(by_host[i], 0U) << every_collective()[i].name;
    }
  }
}

TEST_F(NcclWorld, RefusesTensorsThatAreInDifferentMemoryOnDifferentWorkers) {
  const auto errors = transport::errors_of_ranks(2, [&](transport::Rendezvous& rendezvous) {
    const std::string device = rendezvous.rank() == 0 ? "cpu" : "cuda:1";
    World world = world_of(std::make_unique<collective::Communicator>(
        transport::connect_nccl(rendezvous, transport::connect_over("shm", rendezvous),
                                std::make_unique<HostQueue>(rendezvous.rank(), device, nccl))));
    const Tensor tensor = torch::ones({1}, torch::kDouble);  // 8 bytes, as the size of a message
    std::exception_ptr thrown;
    try {
      world.all_reduce(tensor);
    } catch (...) {
      thrown = std::current_exception();
    }
    rendezvous.gather("");
    if (thrown) std::rethrow_exception(thrown);
  });
  for (const std::string& error : errors)
    EXPECT_NE(error.find("of 1 f64 in a device's memory"), std::string::npos) << error;
}

TEST_F(NcclWorld, GivesDistributedDataParallelTheGradientsOfHostMemory) {
  const auto train = [&](const std::string& device) {
    std::vector<Tensor> state;
    in_world(3, device, [&](World world) {
      torch::nn::Sequential net = seeded(1, [] {
        return torch::nn::Sequential(torch::nn::Linear(4, 16), torch::nn::Tanh(),
                                     torch::nn::Linear(16, 2));
      });
      DistributedDataParallel ddp(net, world, {.first_bucket_bytes = 64, .bucket_bytes = 128});
      torch::optim::SGD optimizer(net->parameters(), 0.1);
      const Tensor x = seeded(2, [] { return torch::randn({3, 5, 4}); })[world.rank()];
      const size_t before = messages_of(world.rank());
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        ddp(x).pow(2).mean().backward();
        optimizer.step();
      }
      EXPECT_EQ(messages_of(world.rank()) > before, device == "cpu");
      if (world.rank() == 0) state = net->parameters();
    });
    return state;
  };
  expect_equal(train("cpu"), train("cuda:0"));
}

}  // namespace
}  // namespace lockstep::cuda
