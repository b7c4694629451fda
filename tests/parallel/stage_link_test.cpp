#include "parallel/stage_link.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "expect_error.h"
#include "lockstep/error.h"
#include "parallel/worlds.h"

namespace lockstep::parallel {
namespace {

StageMessage some_message() {
  std::string long_name(300, 'n');  // so that the header needs several pieces
  return {.tensors = Tensors{{"x", torch::arange(6, torch::kFloat).view({2, 3}).requires_grad_()},
                             {"mask", torch::tensor({true, false})},
                             {"none", torch::Tensor()},
                             {"empty", torch::empty({0, 4})},
                             {long_name, torch::full({1}, 7, torch::kLong)}},
          .generator = torch::arange(5, torch::kByte),
          .notes = 3,
          .received = 9};
}

void expect_some_message(const StageMessage& message) {
  const StageMessage expected = some_message();
  EXPECT_EQ(message.notes, 3);
  EXPECT_EQ(message.received, 9);
  EXPECT_TRUE(message.generator.equal(expected.generator));
  ASSERT_EQ(message.tensors.size(), expected.tensors.size());
  auto other = expected.tensors.begin();
  for (const auto& [name, tensor] : message.tensors) {
    EXPECT_EQ(name, other->first);
    ASSERT_EQ(tensor.defined(), other->second.defined()) << name;
    if (tensor.defined()) {
      EXPECT_TRUE(tensor.is_leaf());
      EXPECT_EQ(tensor.requires_grad(), other->second.requires_grad()) << name;
      EXPECT_TRUE(tensor.equal(other->second)) << name;
    }
    ++other;
  }
}

TEST(StageLink, CarriesTensorsOfAllKindsInsideAWorker) {
  const auto link = make_local_link(torch::kCPU);
  link->send(some_message());
  expect_some_message(link->receive());
  EXPECT_THROW(link->receive(), Error);
}

TEST(StageLink, CarriesTensorsOfAllKindsBetweenWorkers) {
  as_workers(2, [](World world) {
    const auto link = make_remote_link(world, torch::kCPU);
    if (world.rank() == 0) {
      for (int i = 0; i < 3; ++i) link->send(some_message());
      link->finish();
    } else {
      for (int i = 0; i < 3; ++i) expect_some_message(link->receive());
    }
  });
}

// Kernels may have other bits for other strides.
TEST(StageLink, KeepsStridesBetweenWorkers) {
  const torch::Tensor images = torch::rand({2, 3, 4, 5});
  const Tensors sent = {{"channels_last", images.contiguous(torch::MemoryFormat::ChannelsLast)},
                        {"transposed", torch::rand({3, 4}).t()},
                        {"expanded", torch::rand({2, 1, 3}).expand({2, 4, 3})},
                        {"number", torch::tensor(2.5).expand({3, 4})},
                        {"sliced", images.slice(3, 0, 5, 2)},
                        {"selected", images.select(2, 1)},
                        {"expanded_slice", images.narrow(1, 1, 1).expand({2, 5, 4, 5})},
                        {"unfolded", torch::rand({9}).unfold(0, 4, 1)},
                        {"scalar", torch::tensor(1.5)}};
  as_workers(2, [&](World world) {
    const auto link = make_remote_link(world, torch::kCPU);
    if (world.rank() == 0) {
      link->send({sent});
      link->finish();
      return;
    }
    for (const auto& [name, tensor] : link->receive().tensors) {
      EXPECT_TRUE(tensor.equal(sent[name])) << name;
      EXPECT_EQ(tensor.strides(), sent[name].strides()) << name;
    }
  });
}

void expect_one_tensor_with_two_names(const Tensors& received) {
  EXPECT_TRUE(received["x"].is_same(received["skip"]));
  EXPECT_FALSE(received["x"].is_same(received["other"]));
  EXPECT_TRUE(received["other"].equal(torch::ones({2})));
}

TEST(StageLink, CarriesATensorWithTwoNamesOnce) {
  const torch::Tensor x = torch::rand({3, 4});
  const Tensors sent = {{"x", x}, {"none", {}}, {"skip", x}, {"other", torch::ones({2})}};
  const auto local = make_local_link(torch::kCPU);
  local->send({sent});
  expect_one_tensor_with_two_names(local->receive().tensors);
  as_workers(2, [&](World world) {
    const auto link = make_remote_link(world, torch::kCPU);
    if (world.rank() == 0) {
      link->send({sent});
      link->finish();
    } else {
      expect_one_tensor_with_two_names(link->receive().tensors);
    }
  });
}

TEST(StageLink, FreesWhatTheOtherSaysItHasReceived) {
  as_workers(2, [](World world) {
    const auto link = make_remote_link(world.duplicate(), torch::kCPU);
    if (world.rank() == 0) {
      const torch::Tensor first = torch::ones({1 << 20}), second = torch::ones({1 << 20});
      link->send({Tensors(first)});
      link->send({Tensors(second)});
      world.barrier();
      link->release(1);
      EXPECT_EQ(first.storage().use_count(), 1U);
      EXPECT_GT(second.storage().use_count(), 1U);
      world.barrier();
      link->finish();
      EXPECT_EQ(second.storage().use_count(), 1U);
    } else {
      link->receive();
      world.barrier();
      world.barrier();
      link->receive();
    }
  });
}

}  // namespace
}  // namespace lockstep::parallel
