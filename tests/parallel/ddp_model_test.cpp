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

TEST(DdpModel, WithAComplexParameterIsRefusedByName) {
  as_workers(2, [](World everyone) {
    auto net = std::make_shared<WithParameter>(torch::zeros({2}, torch::kComplexFloat));
    expect_bad_input([&] { DistributedDataParallel ddp(net, everyone); },
                     {"parameter 'weight'", "ComplexFloat"});
  });
}

}  // namespace
}  // namespace lockstep
