// What is compiled for AVX2 and for AVX-512 gives the same bits. (Products: convolution_test.cpp.)
#include <gtest/gtest.h>

#include "kernels/batch_norm.h"
#include "kernels/cpu.h"
#include "kernels/lanes.h"
#include "kernels/pooling.h"
#include "kernels/tiles.h"
#include "numbers.h"

namespace lockstep::kernels {
namespace {

std::vector<float> numbers(int64_t count, unsigned seed) {
  return random_numbers<float>(static_cast<size_t>(count), seed);
}
std::vector<float> room(int64_t count) {
  return std::vector<float>(static_cast<size_t>(count), -1.0F);
}

class Wide : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_avx512()) GTEST_SKIP() << "this processor has no AVX-512: there is one kind only";
  }
};

// Of three samples, seven tiles from the second one on, in images with an incomplete last tile.
TEST_F(Wide, TilesHaveTheSameBits) {
  constexpr int64_t kHeight = 6, kWidth = 11, kBlocks = 2, kStride = 8 * kLanes + 24;
  constexpr int64_t kImage = kHeight * kWidth * kLanes * kBlocks;
  for (const int64_t tiles : {1, 2, 7, 8})
    for (const int64_t padding : {0, 1, 2}) {
      const TileGrid grid = {kHeight, kWidth, kImage, 2, 3, padding, 2, tiles, 8, kStride};
      const std::vector<float> images = numbers(3 * kImage, 1),
                               some_points = numbers(kPoints * kStride, 2);
      std::vector<float> inputs[2], gradients[2], results[2];
      for (const int wide : {0, 1}) {
        const TileTransforms<float>& by =
            wide == 1 ? avx512::kTileTransforms : avx2::kTileTransforms;
        inputs[wide] = gradients[wide] = room(kPoints * kStride);
        results[wide] = room(3 * kImage);
        by.inputs(grid, images.data(), inputs[wide].data());
        TileGrid of_results = grid;
        of_results.padding = 0;
        by.gradients(of_results, images.data(), gradients[wide].data());
        by.results(of_results, some_points.data(), results[wide].data());
      }
      EXPECT_EQ(inputs[0], inputs[1]) << tiles << " tiles, padding " << padding;
      EXPECT_EQ(gradients[0], gradients[1]) << tiles << " tiles, padding " << padding;
      EXPECT_EQ(results[0], results[1]) << tiles << " tiles, padding " << padding;
    }
}

TEST_F(Wide, FiltersHaveTheSameBits) {
  constexpr int64_t kIns = 5, kStride = kIns * kPair + 24;
  const std::vector<float> taps = numbers(kIns * kTaps * kPair, 1),
                           points = numbers(kPoints * kStride, 2);
  std::vector<float> there[2], back[2];
  for (const int wide : {0, 1}) {
    const TileTransforms<float>& by = wide == 1 ? avx512::kTileTransforms : avx2::kTileTransforms;
    there[wide] = room(kPoints * kStride);
    back[wide] = room(kIns * kTaps * kPair);
    by.filters({kIns, kPair, kStride}, taps.data(), there[wide].data());
    by.filters_back({kIns, kPair, kStride}, points.data(), back[wide].data());
  }
  EXPECT_EQ(there[0], there[1]);
  EXPECT_EQ(back[0], back[1]);
}

TEST_F(Wide, BatchNormHasTheSameBits) {
  for (const int64_t pixels : {1, 3, 8, 49}) {
    const ImageShape shape = {.samples = 3, .blocks = 2, .pixels = pixels};
    const std::vector<float> x = numbers(shape.count(), 1), dy = numbers(shape.count(), 2),
                             residual = numbers(shape.count(), 3), of = numbers(16, 4);
    std::vector<float> mean[2], variance[2], y[2], sums[2], products[2], masked[2], dx[2];
    for (const int wide : {0, 1}) {
      const BatchNorm<float>& by = wide == 1 ? avx512::kBatchNorm : avx2::kBatchNorm;
      for (std::vector<float>* of_channels : {mean, variance, sums, products})
        of_channels[wide] = room(16);
      for (std::vector<float>* of_pixels : {y, masked, dx}) of_pixels[wide] = room(shape.count());
      by.statistics(shape, x.data(), mean[wide].data(), variance[wide].data());
      by.normalise(shape, x.data(), {mean[wide].data(), of.data(), of.data()}, residual.data(),
                   Rectify::yes, y[wide].data());
      by.gradient_sums(shape, dy.data(), y[wide].data(), x.data(), mean[wide].data(),
                       {sums[wide].data(), products[wide].data()}, masked[wide].data());
      by.input_gradient(shape, dy.data(), y[wide].data(), x.data(),
                        {mean[wide].data(), of.data(), of.data(), sums[wide].data()},
                        dx[wide].data());
    }
    for (const std::vector<float>* kind : {mean, variance, y, sums, products, masked, dx})
      EXPECT_EQ(kind[0], kind[1]) << pixels << " pixels";
  }
}

TEST_F(Wide, PoolingHasTheSameBits) {
  for (const int64_t width : {2, 3, 6, 9, 28}) {
    const PoolShape shape = {.images = 6, .blocks = 2, .height = 5, .width = width};
    const std::vector<float> x = numbers(6 * 5 * width * kLanes, 1), bias = numbers(16, 2),
                             dy = numbers(shape.out_count(), 3);
    std::vector<float> y[2], dx[2], dbias[2];
    std::vector<uint8_t> chosen[2];
    for (const int wide : {0, 1}) {
      const Pooling<float>& by = wide == 1 ? avx512::kPooling : avx2::kPooling;
      y[wide] = room(shape.out_count());
      chosen[wide].resize(y[wide].size());
      dx[wide] = room(6 * 5 * width * kLanes);
      dbias[wide] = room(16);
      by.max_relu(shape, x.data(), bias.data(), y[wide].data(), chosen[wide].data());
      by.max_relu_gradient(shape, dy.data(), chosen[wide].data(), dx[wide].data(),
                           dbias[wide].data());
    }
    EXPECT_EQ(y[0], y[1]) << "width " << width;
    EXPECT_EQ(chosen[0], chosen[1]) << "width " << width;
    EXPECT_EQ(dx[0], dx[1]) << "width " << width;
    EXPECT_EQ(dbias[0], dbias[1]) << "width " << width;
  }
}

}  // namespace
}  // namespace lockstep::kernels
