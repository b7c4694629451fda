// Which of the kernels that are compiled several times this processor runs.
#include "kernels/batch_norm.h"
#include "kernels/cpu.h"
#include "kernels/dropout.h"
#include "kernels/pooling.h"
#include "kernels/products.h"
#include "kernels/tiles.h"

namespace lockstep::kernels {

template <>
Products<float> products() {
  return has_avx512() ? avx512::kProducts : avx2::kProducts;
}

template <>
Products<double> products() {
  return avx2::kProductsOfDoubles;
}

template <>
const TileTransforms<float>& tile_transforms() {
  return has_avx512() ? avx512::kTileTransforms : avx2::kTileTransforms;
}

template <>
const TileTransforms<double>& tile_transforms() {
  return avx2::kTileTransformsOfDoubles;
}

template <>
const BatchNorm<float>& batch_norm() {
  return has_avx512() ? avx512::kBatchNorm : avx2::kBatchNorm;
}

template <>
const BatchNorm<double>& batch_norm() {
  return avx2::kBatchNormOfDoubles;
}

template <>
const Pooling<float>& pooling() {
  return has_avx512() ? avx512::kPooling : avx2::kPooling;
}

template <>
const Pooling<double>& pooling() {
  return avx2::kPoolingOfDoubles;
}

Dropout dropout() {
  return has_avx512() ? avx512::kDropout : avx2::kDropout;
}

}  // namespace lockstep::kernels
