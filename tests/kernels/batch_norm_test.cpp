#include "kernels/batch_norm.h"

#include <gtest/gtest.h>

#include <functional>

#include "kernels/lanes.h"
#include "numbers.h"

namespace lockstep::kernels {
namespace {

constexpr ImageShape kShape = {.samples = 3, .blocks = 2, .pixels = 13};
constexpr double kEpsilon = 1e-5;

size_t channel_of(size_t i) {
  const auto pixels = static_cast<size_t>(kShape.pixels);
  return i / (8 * pixels) % 2 * 8 + i % 8;
}

using Numbers = std::vector<double>;

struct Statistics {
  Numbers mean = Numbers(16);
  Numbers variance = Numbers(16);
};
Statistics statistics_by_definition(const Numbers& x) {
  Statistics of;
  const double count = static_cast<double>(x.size()) / 16;
  for (size_t i = 0; i < x.size(); ++i) of.mean[channel_of(i)] += x[i] / count;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = x[i] - of.mean[channel_of(i)];
    of.variance[channel_of(i)] += d * d / count;
  }
  return of;
}

TEST(BatchNorm, TakesMeanAndVarianceOfEveryChannel) {
  const auto x = random_numbers<double>(static_cast<size_t>(kShape.count()));
  const Statistics expected = statistics_by_definition(x);
  Statistics of;
  batch_norm<double>().statistics(kShape, x.data(), of.mean.data(), of.variance.data());
  EXPECT_LT(difference(of.mean, expected.mean), 1e-14);
  EXPECT_LT(difference(of.variance, expected.variance), 1e-14);
}

TEST(BatchNorm, KeepsTheVariancesDigitsWhereTheMeanIsLarge) {
  auto x = random_numbers<float>(static_cast<size_t>(kShape.count()));
  for (float& value : x) value += 3000;
  const Statistics expected = statistics_by_definition({x.begin(), x.end()});
  std::vector<float> mean(16), variance(16);
  batch_norm<float>().statistics(kShape, x.data(), mean.data(), variance.data());
  EXPECT_LT(difference(variance, {expected.variance.begin(), expected.variance.end()}), 1e-5);
}

TEST(BatchNorm, HasNoVarianceBelowZero) {
  std::vector<float> x(static_cast<size_t>(kShape.count()), 0.1F), mean(16), variance(16, NAN);
  batch_norm<float>().statistics(kShape, x.data(), mean.data(), variance.data());
  EXPECT_EQ(variance, std::vector<float>(16, 0.0F));
  EXPECT_EQ(mean, std::vector<float>(16, 0.1F));
}

// relu(norm(x) * gamma + beta + residual) as one function of x, to be differentiated.
struct Layer {
  Numbers gamma = random_numbers<double>(16, 5), beta = random_numbers<double>(16, 6);
  Numbers residual = random_numbers<double>(static_cast<size_t>(kShape.count()), 7);

  Numbers scales(const Statistics& of) const {
    Numbers scale(16);
    for (size_t c = 0; c < 16; ++c) scale[c] = gamma[c] / std::sqrt(of.variance[c] + kEpsilon);
    return scale;
  }

  Numbers forward(const Numbers& x, Rectify rectify) const {
    Statistics of;
    batch_norm<double>().statistics(kShape, x.data(), of.mean.data(), of.variance.data());
    const Numbers scale = scales(of);
    Numbers y(x.size());
    batch_norm<double>().normalise(kShape, x.data(), {of.mean.data(), scale.data(), beta.data()},
                                   residual.data(), rectify, y.data());
    return y;
  }
};

double dot(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

TEST(BatchNorm, HasTheGradientsThatDifferencesShow) {
  const auto x = random_numbers<double>(static_cast<size_t>(kShape.count()), 1);
  const auto dy = random_numbers<double>(x.size(), 2);
  const auto direction = random_numbers<double>(x.size(), 3);
  const Layer layer;
  for (const Rectify rectify : {Rectify::no, Rectify::yes}) {
    const Numbers y = layer.forward(x, rectify);
    const double* mask = rectify == Rectify::yes ? y.data() : nullptr;
    Statistics of;
    batch_norm<double>().statistics(kShape, x.data(), of.mean.data(), of.variance.data());
    Numbers sum_g(16), sum_gx(16), masked(x.size()), dx(x.size()), again(x.size());
    batch_norm<double>().gradient_sums(kShape, dy.data(), mask, x.data(), of.mean.data(),
                                       {sum_g.data(), sum_gx.data()},
                                       mask == nullptr ? nullptr : masked.data());
    const Numbers scale = layer.scales(of);
    Numbers of_x(16), constant(16);
    const auto count = static_cast<double>(kShape.samples * kShape.pixels);
    for (size_t c = 0; c < 16; ++c) {
      of_x[c] = -scale[c] * sum_gx[c] / (of.variance[c] + kEpsilon) / count;
      constant[c] = -scale[c] * sum_g[c] / count;
    }
    const GradientTerms<double> terms = {of.mean.data(), scale.data(), of_x.data(),
                                         constant.data()};
    batch_norm<double>().input_gradient(kShape, dy.data(), mask, x.data(), terms, dx.data());

    constexpr double kStep = 1e-6;
    Numbers up = x, down = x;
    for (size_t i = 0; i < x.size(); ++i) {
      up[i] += kStep * direction[i];
      down[i] -= kStep * direction[i];
    }
    const double slope =
        (dot(layer.forward(up, rectify), dy) - dot(layer.forward(down, rectify), dy)) / (2 * kStep);
    EXPECT_NEAR(dot(dx, direction), slope, 1e-6 * std::abs(slope) + 1e-7);
    if (mask == nullptr) continue;
    // What was let through may be handed over instead of the mask.
    batch_norm<double>().input_gradient(kShape, masked.data(), nullptr, x.data(), terms,
                                        again.data());
    EXPECT_EQ(dx, again);
  }
}

}  // namespace
}  // namespace lockstep::kernels
