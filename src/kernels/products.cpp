#include "kernels/products.h"

#include "kernels/cpu.h"

namespace lockstep::kernels {

template <>
Products<float> products() {
  return has_avx512() ? avx512::kProducts : avx2::kProducts;
}

template <>
Products<double> products() {
  return avx2::kProductsOfDoubles;
}

}  // namespace lockstep::kernels
