// Which models DistributedDataParallel takes, and what may become of them afterwards.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "expect_error.h"
#include "lockstep/ddp.h"
#include "parallel/worlds.h"

namespace lockstep {
namespace {

struct WithParameter : torch::nn::Module {
  explicit WithParameter(torch::Tensor value) {
    weight = register_parameter("weight", std::move(value));
  }
  torch::Tensor forward(const torch::Tensor& x) { return (weight * x).sum(); }
  torch::Tensor weight;
};

TEST(DdpModel, WithOtherStridesOnAWorkerIsAMismatch) {
  const auto errors = errors_of_workers(2, [](World everyone) {
    torch::Tensor value = torch::zeros({4, 3, 2, 2});
    if (everyone.rank() == 1) value = value.contiguous(torch::MemoryFormat::ChannelsLast);
    DistributedDataParallel ddp(std::make_shared<WithParameter>(value), everyone);
  });
  for (const std::string& error : errors)
    EXPECT_EQ(error,
              "ranks disagree on parameter 'weight': rank 0 has Float 4x3x2x2, rank 1 has Float "
              "4x3x2x2 of strides 12, 1, 6, 3");
}

TEST(DdpModel, InChannelsLastHasTheSameGradients) {
  as_workers(2, [](World everyone) {
    const torch::Tensor value =
        torch::zeros({4, 3, 2, 2}).contiguous(torch::MemoryFormat::ChannelsLast);
    auto net = std::make_shared<WithParameter>(value);
    DistributedDataParallel ddp(net, everyone);
    const torch::Tensor x = torch::arange(48.0F).view({4, 3, 2, 2});
    for (int pass = 0; pass < 2; ++pass) {
      net->zero_grad();
      ddp.forward(x * (1 + everyone.rank())).backward();
      EXPECT_TRUE(torch::equal(net->weight.grad(), x * 1.5));
    }
  });
}

TEST(DdpModel, WithAComplexParameterIsRefusedByName) {
  as_workers(2, [](World everyone) {
    auto net = std::make_shared<WithParameter>(torch::zeros({2}, torch::kComplexFloat));
    expect_bad_input([&] { DistributedDataParallel ddp(net, everyone); },
                     {"parameter 'weight'", "ComplexFloat"});
  });
}

}  // namespace
}  // namespace lockstep
