#include "kernels/products.h"

#include "kernels/cpu.h"

namespace lockstep::kernels {

template <>
Products<float> products() {
  return has_avx512() ? avx512::products : avx2::products;
}

template <>
Products<double> products() {
  return avx2::products_of_doubles;
}

}  // namespace lockstep::kernels
