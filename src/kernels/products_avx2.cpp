#include "kernels/product_loops.h"

namespace lockstep::kernels::avx2 {

const Products<float> kProducts = {gather<float>,    outer<float>,          strips<float>,
                                   transpose<float>, transpose_back<float>, copy<float>};
const Products<double> kProductsOfDoubles = {gather<double>,         outer<double>,
                                             strips<double>,         transpose<double>,
                                             transpose_back<double>, copy<double>};

}  // namespace lockstep::kernels::avx2
