#include "kernels/pooling.h"

#include <gtest/gtest.h>

#include "numbers.h"

namespace lockstep::kernels {
namespace {

constexpr PoolShape kImages = {.images = 6, .blocks = 2, .height = 5, .width = 7};
constexpr size_t kCount = 6 * 5 * 7 * 8;

TEST(MaxPool, TakesTheLargestOfFourWithBiasAndCutsAtZero) {
  const auto x = random_numbers<double>(kCount, 1);
  const auto bias = random_numbers<double>(16, 2);
  std::vector<double> y(static_cast<size_t>(kImages.out_count()), NAN);
  std::vector<uint8_t> chosen(y.size());
  pooling<double>().max_relu(kImages, x.data(), bias.data(), y.data(), chosen.data());
  std::vector<double> dx(kCount, NAN), dbias(16, NAN);
  const auto dy = random_numbers<double>(y.size(), 3);
  pooling<double>().max_relu_gradient(kImages, dy.data(), chosen.data(), dx.data(), dbias.data());

  std::vector<double> expected_dx(kCount), expected_dbias(16);
  for (size_t image = 0; image < 6; ++image)
    for (size_t row = 0; row < 2; ++row)
      for (size_t column = 0; column < 3; ++column)
        for (size_t lane = 0; lane < 8; ++lane) {
          size_t most = 0;
          for (size_t i = 0; i < 4; ++i) {
            const size_t at = ((image * 5 + 2 * row + i / 2) * 7 + 2 * column + i % 2) * 8 + lane;
            if (i == 0 || x[at] > x[most]) most = at;
          }
          const size_t out = ((image * 2 + row) * 3 + column) * 8 + lane;
          const size_t channel = image % 2 * 8 + lane;
          const double value = x[most] + bias[channel];
          EXPECT_EQ(y[out], value > 0 ? value : 0);
          if (value <= 0) continue;
          expected_dx[most] = dy[out];
          expected_dbias[channel] += dy[out];
        }
  EXPECT_EQ(dx, expected_dx);
  EXPECT_LT(difference(dbias, expected_dbias), 1e-14);
}

TEST(MaxPool, NeedsNoBias) {
  const auto x = random_numbers<float>(kCount, 1);
  const std::vector<float> zero(16);
  std::vector<float> with(static_cast<size_t>(kImages.out_count())), without(with.size());
  std::vector<uint8_t> chosen(with.size());
  pooling<float>().max_relu(kImages, x.data(), zero.data(), with.data(), chosen.data());
  pooling<float>().max_relu(kImages, x.data(), nullptr, without.data(), chosen.data());
  EXPECT_EQ(with, without);
  std::vector<float> dx(kCount);
  pooling<float>().max_relu_gradient(kImages, with.data(), chosen.data(), dx.data(), nullptr);
}

TEST(MeanPool, TakesTheMeanAndSpreadsItsGradient) {
  const auto x = random_numbers<double>(2 * 5 * 8);
  std::vector<double> y(16), dx(x.size());
  pooling<double>().mean(2, 5, x.data(), y.data());
  pooling<double>().mean_gradient(2, 5, y.data(), dx.data());
  for (size_t image = 0; image < 2; ++image)
    for (size_t lane = 0; lane < 8; ++lane) {
      double sum = 0;
      for (size_t pixel = 0; pixel < 5; ++pixel) sum += x[(image * 5 + pixel) * 8 + lane];
      EXPECT_NEAR(y[image * 8 + lane], sum / 5, 1e-15);
      EXPECT_EQ(dx[(image * 5 + 3) * 8 + lane], y[image * 8 + lane] / 5);
    }
}

}  // namespace
}  // namespace lockstep::kernels
