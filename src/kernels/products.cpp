#include "kernels/products.h"

#include "kernels/cpu.h"
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

}  // namespace lockstep::kernels
