#include <gtest/gtest.h>

#include <cmath>

#include "data/loader.h"

namespace lockstep::data {
namespace {

TEST(Normalization, MeasuresEachChannelOfBytes) {
  Dataset dataset;
  dataset.shape = {2, 1, 2};
  dataset.labels = {0, 0};
  // The first channel has 0, 255, 0, 255; the second 51 four times.
  dataset.values = std::vector<uint8_t>{0, 255, 51, 51, 0, 255, 51, 51};
  const Normalization measured = measure_normalization(dataset);
  EXPECT_EQ(measured.mean, (std::vector<float>{0.5F, 0.2F}));
  EXPECT_EQ(measured.deviation, (std::vector<float>{0.5F, 1.0F}));
}

TEST(Normalization, MeasuresFloats) {
  Dataset dataset;
  dataset.shape = {3, 1, 1};
  dataset.labels = {0, 0};
  dataset.values = std::vector<float>{1, 0.1F, -5, 3, 0.1F, 5};
  const Normalization measured = measure_normalization(dataset);
  EXPECT_EQ(measured.mean, (std::vector<float>{2, 0.1F, 0}));
  EXPECT_EQ(measured.deviation, (std::vector<float>{1, 1, 5}));
}

TEST(Normalization, TakesAnythingButAnImageAsOneChannel) {
  Dataset dataset;
  dataset.shape = {4};
  dataset.labels = {0};
  dataset.values = std::vector<float>{1, 2, 3, 4};
  EXPECT_EQ(measure_normalization(dataset).mean, (std::vector<float>{2.5F}));
  dataset.shape = {1, 2, 1, 2};
  EXPECT_EQ(measure_normalization(dataset).mean, (std::vector<float>{2.5F}));
}

TEST(Normalization, IsExactWhereBytesWouldOverflowOrRound) {
  // A sample longer than the pieces that are summed in 32 bits, all but one of its bytes 255.
  Dataset dataset;
  dataset.shape = {1, 1, 200'000};
  dataset.labels = {0};
  std::vector<uint8_t> bytes(200'000, 255);
  bytes[0] = 0;
  dataset.values = bytes;
  const Normalization measured = measure_normalization(dataset);
  const double n = 200'000;
  EXPECT_FLOAT_EQ(measured.mean[0], static_cast<float>((n - 1) / n));
  EXPECT_FLOAT_EQ(measured.deviation[0], static_cast<float>(std::sqrt((n - 1) / (n * n))));
}

}  // namespace
}  // namespace lockstep::data
