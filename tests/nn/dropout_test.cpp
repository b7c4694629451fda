#include "kernels/dropout.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "kernels/cpu.h"
#include "lockstep/nn.h"

namespace lockstep::nn {
namespace {

using torch::Tensor;

Tensor dropped(double probability, const Tensor& x) {
  torch::nn::Dropout layer(probability);
  return dropout(*layer, x);
}

TEST(Dropout, DropsAsManyAsItIsToldAndScalesTheOthers) {
  torch::manual_seed(1);
  const int64_t count = 1'000'000;
  for (const double probability : {0.1, 0.5, 0.9}) {
    const Tensor y = dropped(probability, torch::ones({count}));
    const auto kept = y.count_nonzero().item<int64_t>();
    EXPECT_NEAR(static_cast<double>(kept) / count, 1 - probability, 0.003);
    EXPECT_TRUE(((y == 0) | (y == static_cast<float>(1 / (1 - probability)))).all().item<bool>());
  }
}

TEST(Dropout, HasTheGradientOfWhatItLetThrough) {
  const Tensor x = torch::randn({7, 3000}).requires_grad_();
  const Tensor y = dropped(0.3, x);
  y.backward(torch::full({7, 3000}, 2.0F));
  const Tensor expected =
      torch::where(y.detach() == 0, torch::zeros_like(y), y.detach() / x.detach());
  EXPECT_TRUE(torch::allclose(x.grad(), 2 * expected, 1e-5));
}

TEST(Dropout, IsDrawnFromLibTorchsGenerator) {
  const Tensor x = torch::ones({10'000});
  torch::manual_seed(5);
  const Tensor first = dropped(0.5, x), second = dropped(0.5, x);
  EXPECT_FALSE(first.equal(second));
  torch::manual_seed(5);
  EXPECT_TRUE(dropped(0.5, x).equal(first));
  EXPECT_TRUE(dropped(0.5, x).equal(second));
}

// Of two masks about half of the places agree, wherever one of them is moved to.
TEST(Dropout, MasksOfSeveralCallsAreIndependent) {
  torch::manual_seed(3);
  constexpr int64_t kCount = 100'000, kMost = 3;
  const Tensor x = torch::ones({kCount + kMost});
  const Tensor first = dropped(0.5, x) > 0, second = dropped(0.5, x) > 0;
  for (const int64_t apart : {int64_t{0}, int64_t{1}, kMost}) {
    const Tensor moved = first.slice(0, apart, apart + kCount);
    const Tensor stays = second.slice(0, 0, kCount);
    EXPECT_NEAR((moved == stays).to(torch::kFloat).mean().item<double>(), 0.5, 0.01);
    if (apart > 0)
      EXPECT_NEAR((moved == first.slice(0, 0, kCount)).to(torch::kFloat).mean().item<double>(), 0.5,
                  0.01);
  }
}

TEST(Dropout, LetsAllThroughInEvaluationAndLeavesOtherTypesToLibTorch) {
  torch::nn::Dropout layer(0.5);
  const Tensor x = torch::randn({100});
  EXPECT_TRUE(dropout(*layer, x.to(torch::kDouble)).count_nonzero().item<int64_t>() < 80);
  layer->eval();
  EXPECT_TRUE(dropout(*layer, x).equal(x));
}

TEST(Dropout, HasTheSameBitsWithAndWithoutAvx512) {
  if (!kernels::has_avx512()) GTEST_SKIP() << "this processor has no AVX-512";
  const Tensor x = torch::randn({12'345});
  const Tensor narrow = torch::empty_like(x), wide = torch::empty_like(x);
  const kernels::Drop by = {0x123456789abcdef, 1U << 30, 4.0F / 3};
  kernels::avx2::kDropout(by, x.numel(), x.data_ptr<float>(), narrow.data_ptr<float>());
  kernels::avx512::kDropout(by, x.numel(), x.data_ptr<float>(), wide.data_ptr<float>());
  EXPECT_TRUE(narrow.equal(wide));
}

}  // namespace
}  // namespace lockstep::nn
