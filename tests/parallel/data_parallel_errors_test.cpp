#include <gtest/gtest.h>
#include <torch/torch.h>

#include "expect_error.h"
#include "lockstep/data_parallel.h"
#include "parallel/devices.h"

namespace lockstep {
namespace {

using torch::Tensor;

std::vector<torch::Device> two_devices() {
  return {virtual_device(0), virtual_device(1)};
}

torch::nn::Linear placed_linear(torch::Device device) {
  torch::nn::Linear model(3, 2);
  model->to(device);
  return model;
}

TEST(DataParallelErrors, NameDevicesThatCannotBeUsed) {
  const auto model = placed_linear(virtual_device(0));
  const auto make = [&](const std::vector<torch::Device>& devices) {
    return [=] { DataParallel parallel(model, devices); };
  };
  const torch::DeviceType kind = virtual_device(0).type();
  expect_bad_input(make({}), {"empty list", "at least one"});
  expect_bad_input(make({virtual_device(0), torch::kCPU}), {"virtual:0", "cpu", "one kind"});
  expect_bad_input(make({virtual_device(0), virtual_device(1), virtual_device(0)}),
                   {"virtual:0 twice"});
  expect_bad_input(make({virtual_device(0), torch::Device(kind, 7)}),
                   {"virtual:7: no such device", "virtual:3"});
  expect_bad_input(make({torch::Device(kind)}), {"its number"});
  expect_bad_input(make({torch::Device(torch::kCUDA, 99)}), {"cuda:99: no such device"});
}

TEST(DataParallelErrors, NameModelsThatCannotBeUsed) {
  const auto make = [](const auto& model) {
    return [=] { DataParallel parallel(model, two_devices()); };
  };
  expect_bad_input(make(torch::nn::Linear(nullptr)), {"no model"});
  expect_bad_input(make(placed_linear(torch::kCPU)), {"'weight' is on cpu", "virtual:0"});
  torch::nn::Sequential spread(placed_linear(virtual_device(0)), placed_linear(virtual_device(1)));
  expect_bad_input(make(spread), {"'1.weight' is on virtual:1", "first device, virtual:0"});
  torch::nn::BatchNorm1d norm(2);
  norm->to(virtual_device(0));
  norm->running_mean.set_data(torch::zeros({2}));
  expect_bad_input(make(norm), {"buffer 'running_mean' is on cpu"});
}

struct UncloneableImpl : torch::nn::Module {
  UncloneableImpl() : fc(register_module("fc", torch::nn::Linear(3, 2))) {}
  Tensor forward(const Tensor& x) { return fc(x); }
  torch::nn::Linear fc;
};

struct WithUncloneableImpl : torch::nn::Cloneable<WithUncloneableImpl> {
  WithUncloneableImpl() { reset(); }
  void reset() override { inner = register_module("inner", std::make_shared<UncloneableImpl>()); }
  Tensor forward(const Tensor& x) { return inner->forward(x); }
  std::shared_ptr<UncloneableImpl> inner;
};

struct DerivedLinearImpl : torch::nn::LinearImpl {
  DerivedLinearImpl() : LinearImpl(3, 2) {}
};

TEST(DataParallelErrors, SayHowModelsBecomeCloneable) {
  const auto refused = [](const auto& model, std::initializer_list<std::string> parts) {
    model->to(virtual_device(0));
    expect_bad_input([&] { DataParallel parallel(model, two_devices()); }, parts);
  };
  refused(std::make_shared<UncloneableImpl>(),
          {"UncloneableImpl to virtual:1", "torch::nn::Cloneable<", "make_replica"});
  refused(std::make_shared<WithUncloneableImpl>(),
          {"'inner.fc.weight' to virtual:1", "UncloneableImpl>", "reset()"});
  refused(std::make_shared<DerivedLinearImpl>(), {"DerivedLinearImpl", "LinearImpl", "Cloneable"});
}

TEST(DataParallelErrors, NameReplicasOfAnotherStructure) {
  const auto model = std::make_shared<UncloneableImpl>();
  model->to(virtual_device(0));
  const auto make = [&](const auto& make_replica) {
    return [=] { DataParallel parallel(model, two_devices(), {.make_replica = make_replica}); };
  };
  expect_bad_input(make([] { return nullptr; }), {"make_replica returned nothing"});
  expect_bad_input(make([=] { return model; }), {"make_replica returned the model itself"});
  expect_bad_input(make([] { return std::make_shared<torch::nn::LinearImpl>(3, 2); }),
                   {"'fc.weight' is one"});
}

TEST(DataParallelErrors, NameInputsThatCannotBeDivided) {
  DataParallel parallel(placed_linear(virtual_device(0)), two_devices());
  expect_bad_input([&] { parallel(torch::ones({4, 3}, virtual_device(1))); },
                   {"input 1", "virtual:1", "first device, virtual:0"});
  expect_bad_input([&] { parallel(torch::tensor(1.0F)); }, {"no input with samples"});
  torch::nn::Bilinear pair(3, 3, 2);
  pair->to(virtual_device(0));
  DataParallel two_inputs(pair, two_devices());
  expect_bad_input([&] { two_inputs(torch::ones({4, 3}), torch::ones({5, 3})); },
                   {"input 2", "5 samples", "4"});
}

enum class Fault { none, single_number, fewer_samples, own_error, torch_error, memory };

struct FaultyImpl : torch::nn::Cloneable<FaultyImpl> {
  FaultyImpl() { reset(); }
  void reset() override { fc = register_module("fc", torch::nn::Linear(3, 2)); }
  Tensor forward(const Tensor& x, Fault fault) {
    const bool second = fc->weight.device() == virtual_device(1);
    const Tensor y = fc(x);
    if (fault == Fault::single_number) return y.sum();
    if (fault == Fault::fewer_samples) return y.slice(0, 1);
    if (fault == Fault::own_error && second) throw std::out_of_range("no such word");
    if (fault == Fault::torch_error && second) return torch::mm(x, x);
    if (fault == Fault::memory && second) torch::empty({kDeviceBytes}, y.options());
    return y;
  }
  torch::nn::Linear fc{nullptr};
};

TEST(DataParallelErrors, NameResultsThatCannotBeGathered) {
  const auto model = std::make_shared<FaultyImpl>();
  model->to(virtual_device(0));
  for (const size_t count : {1, 2}) {
    auto devices = two_devices();
    devices.resize(count, virtual_device(0));
    DataParallel parallel(model, devices);
    expect_bad_input([&] { parallel(torch::ones({4, 3}), Fault::single_number); },
                     {"result 1", "virtual:0", "a single number", "losses"});
    expect_bad_input([&] { parallel(torch::ones({4, 3}), Fault::fewer_samples); },
                     {"result 1", "expected " + std::to_string(4 / count) + " samples"});
  }
}

TEST(DataParallelErrors, OfOneDeviceReachTheCallerWithItsName) {
  const auto model = std::make_shared<FaultyImpl>();
  model->to(virtual_device(0));
  DataParallel parallel(model, two_devices());
  const Tensor x = torch::ones({4, 3});
  const auto run = [&](Fault fault) {
    return [&parallel, x, fault] { parallel(x, fault).sum().backward(); };
  };
  run(Fault::none)();
  const std::string own = message_of<Error>(run(Fault::own_error));
  EXPECT_TRUE(has(own, "on virtual:1, of samples 2 to 3: no such word")) << own;
  EXPECT_TRUE(has(message_of<c10::Error>(run(Fault::torch_error)), "on virtual:1"));
  EXPECT_TRUE(has(message_of<OutOfMemory>(run(Fault::memory)), "virtual:1"));
  try {
    run(Fault::own_error)();
  } catch (const Error& error) {
    EXPECT_THROW(std::rethrow_if_nested(error), std::out_of_range);
  }
  model->zero_grad();
  run(Fault::none)();
  EXPECT_EQ(model->fc->bias.grad()[0].item<float>(), 4);
}

TEST(DataParallelErrors, OfMemoryArriveWhenAReplicaDoesNotFit) {
  torch::nn::Linear model(1024, 6 * 1024);  // 24 MiB of 64
  model->to(virtual_device(0));
  const Tensor taken = torch::empty({int64_t{12} << 20}, virtual_device(1));
  EXPECT_TRUE(has(message_of<OutOfMemory>([&] { DataParallel parallel(model, two_devices()); }),
                  "virtual:1"));
}

TEST(DataParallelErrors, NameParametersThatWereMovedOrRegisteredLater) {
  const auto model = std::make_shared<UncloneableImpl>();
  model->to(virtual_device(0));
  DataParallel parallel(model, two_devices(),
                        {.make_replica = [] { return std::make_shared<UncloneableImpl>(); }});
  model->to(torch::kCPU);
  expect_bad_input([&] { parallel(torch::ones({4, 3})); }, {"'fc.weight' is on cpu", "virtual:0"});
  model->to(virtual_device(0));
  parallel(torch::ones({4, 3}));
  model->register_parameter("late", torch::ones({1}, virtual_device(0)));
  expect_bad_input([&] { parallel(torch::ones({4, 3})); },
                   {"has 3 parameters and buffers, and had 2", "make a new DataParallel"});
}

// As on one device.
TEST(DataParallelErrors, NameChangesOfParametersBetweenForwardAndBackwardPass) {
  torch::nn::Sequential model(torch::nn::Linear(3, 3), torch::nn::Linear(3, 2));
  model->to(virtual_device(0));
  DataParallel parallel(model, two_devices());
  const Tensor x = torch::ones({4, 3}), early = parallel(x);
  {
    const torch::NoGradGuard no_grad;
    model->parameters()[2] += 1;
  }
  parallel(x);
  EXPECT_TRUE(has(message_of<c10::Error>([&] { early.sum().backward(); }), "inplace operation"));
}

}  // namespace
}  // namespace lockstep
