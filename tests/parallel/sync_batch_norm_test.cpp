#include "lockstep/sync_batch_norm.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "parallel/worlds.h"

namespace lockstep {
namespace {

struct Outcome {
  torch::Tensor y, x_gradient, weight_gradient, bias_gradient, mean, variance;
};

template <typename Norm>
Outcome pass_through(Norm& norm, const torch::Tensor& input, const torch::Tensor& target) {
  torch::Tensor x = input.detach().clone().requires_grad_();
  const torch::Tensor y = norm(x);
  (y * target).sum().backward();
  return {y.detach(),        x.grad(),           norm->weight.grad(),
          norm->bias.grad(), norm->running_mean, norm->running_var};
}

torch::Tensor part(const torch::Tensor& whole, const std::vector<int64_t>& bounds, int rank) {
  const auto at = static_cast<size_t>(rank);
  return whole.slice(0, bounds[at], bounds[at + 1]);
}

TEST(SyncBatchNorm, EqualsBatchNormOnTheWholeBatch) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{12, 5}, {12, 5, 4, 3}}) {
    torch::manual_seed(3);
    const torch::Tensor x = torch::randn(shape) * 3 + 100;  // far from 0: cancellation would show
    const torch::Tensor target = torch::randn(shape);
    torch::nn::BatchNorm2d whole(5);
    torch::nn::BatchNorm1d flat(5);
    const Outcome expected =
        shape.size() == 4 ? pass_through(whole, x, target) : pass_through(flat, x, target);
    const std::vector<int64_t> bounds = {0, 3, 5, 12};  // uneven parts
    as_workers(3, [&](World everyone) {
      nn::SyncBatchNorm norm(5, everyone);
      const Outcome got = pass_through(norm, part(x, bounds, everyone.rank()),
                                       part(target, bounds, everyone.rank()));
      const auto close = [](const torch::Tensor& a, const torch::Tensor& b) {
        return torch::allclose(a, b, 1e-5, 1e-5);
      };
      EXPECT_TRUE(close(got.y, part(expected.y, bounds, everyone.rank())));
      EXPECT_TRUE(close(got.x_gradient, part(expected.x_gradient, bounds, everyone.rank())));
      EXPECT_TRUE(close(got.mean, expected.mean));
      EXPECT_TRUE(close(got.variance, expected.variance));
      torch::Tensor weight_gradient = got.weight_gradient.clone();
      everyone.all_reduce(weight_gradient);
      EXPECT_TRUE(close(weight_gradient, expected.weight_gradient));
      torch::Tensor bias_gradient = got.bias_gradient.clone();
      everyone.all_reduce(bias_gradient);
      EXPECT_TRUE(close(bias_gradient, expected.bias_gradient));
    });
  }
}

TEST(SyncBatchNorm, UsesRunningStatisticsInEvaluation) {
  as_workers(2, [](World everyone) {
    nn::SyncBatchNorm norm(3, everyone);
    norm->running_mean.fill_(2);
    norm->eval();
    if (everyone.rank() == 1) return;  // no collective
    EXPECT_TRUE(torch::allclose(norm(torch::full({4, 3}, 2.0F)), torch::zeros({4, 3})));
  });
}

TEST(SyncBatchNorm, LearnsNothingFromNoSamples) {
  as_workers(2, [](World everyone) {
    nn::SyncBatchNorm norm(3, everyone);
    norm(torch::full({4, 3}, 2.0F));
    const torch::Tensor mean = norm->running_mean.clone();
    const torch::Tensor variance = norm->running_var.clone();
    const torch::Tensor x = torch::zeros({0, 3}, torch::requires_grad());
    norm(x).sum().backward();
    EXPECT_TRUE(torch::equal(norm->running_mean, mean));
    EXPECT_TRUE(torch::equal(norm->running_var, variance));
    EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 1);
    EXPECT_TRUE(torch::equal(norm->weight.grad(), torch::zeros({3})));
    EXPECT_EQ(x.grad().numel(), 0);
  });
}

TEST(SyncBatchNorm, HasTheNamesOfBatchNorm) {
  as_workers(1, [](World everyone) {
    nn::SyncBatchNorm norm(3, everyone);
    torch::nn::BatchNorm2d plain(3);
    EXPECT_EQ(norm->named_parameters().keys(), plain->named_parameters().keys());
    EXPECT_EQ(norm->named_buffers().keys(), plain->named_buffers().keys());
  });
}

}  // namespace
}  // namespace lockstep
