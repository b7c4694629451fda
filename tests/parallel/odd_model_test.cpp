// A model that takes little for granted, on one to three workers, each on a device of its own.
#include "odd_model.h"

#include <gtest/gtest.h>

#include "lockstep/ddp.h"
#include "lockstep/virtual_device.h"
#include "parallel/devices.h"
#include "parallel/worlds.h"

namespace lockstep {
namespace {

using torch::Tensor;

constexpr int64_t kSamples = 12;
constexpr int kSteps = 8;

struct OddTraining {
  Tensor losses;                        ///< of all samples, by step
  std::map<std::string, Tensor> state;  ///< parameters and buffers afterwards
};

Tensor odd_tokens() {
  return torch::arange(kSamples * 5).mul(7).remainder(20).view({kSamples, 5});
}

Tensor odd_targets() {
  return torch::arange(kSamples).mul(3).remainder(20);
}

OddModel odd_model(uint64_t seed) {
  return seeded(seed, [] { return OddModel(); });
}

// Calls `mean_loss`, which leaves gradients, before each step.
OddTraining train(OddModel& model, const std::function<Tensor()>& mean_loss) {
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.3).momentum(0.9));
  std::vector<Tensor> losses;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    losses.push_back(mean_loss().cpu());
    optimizer.step();
  }
  OddTraining done{torch::stack(losses), {}};
  for (const auto& each : model->named_parameters())
    done.state[each.key()] = each.value().detach().cpu();
  for (const auto& each : model->named_buffers()) done.state[each.key()] = each.value().cpu();
  return done;
}

// In one process, without Lockstep.
OddTraining trained_alone() {
  OddModel model = odd_model(1);
  return train(model, [&] {
    const Tensor loss = torch::cross_entropy_loss(model(odd_tokens()), odd_targets());
    loss.backward();
    return loss.detach();
  });
}

// As a worker that computes its part of the samples.
OddTraining trained_on(torch::Device device, World world) {
  OddModel model = odd_model(static_cast<uint64_t>(1 + world.rank()));
  model->to(device);
  DistributedDataParallel ddp(
      model, world, {.first_bucket_bytes = 256, .bucket_bytes = 1024, .unused = Unused::find});
  const int64_t each = kSamples / world.size();
  const auto part = [&](const Tensor& all) {
    return all.slice(0, world.rank() * each, (world.rank() + 1) * each).to(device);
  };
  OddTraining done = train(model, [&] {
    Tensor loss = torch::cross_entropy_loss(ddp(part(odd_tokens())), part(odd_targets()));
    loss.backward();
    loss = loss.detach();
    world.all_reduce(loss, Operation::mean);
    EXPECT_EQ(loss.device(), device);
    return loss;
  });
  for (const Tensor& parameter : model->parameters()) EXPECT_EQ(parameter.device(), device);
  EXPECT_FALSE(model->frozen.grad().defined());
  return done;
}

// An LSTM's last digits differ on devices, and those of a mean by the number of workers.
void expect_close(const OddTraining& got, const OddTraining& expected, const std::string& what) {
  EXPECT_TRUE(got.losses.allclose(expected.losses, 1e-5, 1e-5))
      << what << got.losses << expected.losses;
  ASSERT_EQ(got.state.size(), expected.state.size());
  for (const auto& [name, tensor] : expected.state)
    EXPECT_TRUE(got.state.at(name).allclose(tensor, 1e-4, 1e-5))
        << what << ": " << name << got.state.at(name) << tensor;
}

TEST(OddModelInDdp, TrainsOnEveryNumberOfDevicesAsInOneProcessOnTheCpu) {
  const OddTraining alone = trained_alone();
  EXPECT_LT(alone.losses[kSteps - 1].item<double>(), alone.losses[0].item<double>() - 0.3);
  EXPECT_EQ(alone.state.at("calls").item<int64_t>(), kSteps);
  EXPECT_EQ(alone.state.at("largest").item<int64_t>(), 19);
  for (const int workers : {1, 2, 3})
    as_workers(workers, [&](World world) {
      const OddTraining on_device = trained_on(virtual_device(world.rank()), world);
      expect_close(on_device, alone, fmt::format("rank {} of {}", world.rank(), workers));
    });
}

}  // namespace
}  // namespace lockstep
