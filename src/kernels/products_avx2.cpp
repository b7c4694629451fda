#include "kernels/product_loops.h"

namespace lockstep::kernels::avx2 {

const Products<float> kProducts = {gather<float>, outer<float>, transpose<float>,
                                   transpose_back<float>, copy<float>};
const Products<double> kProductsOfDoubles = {gather<double>, outer<double>, transpose<double>,
                                             transpose_back<double>, copy<double>};

}  // namespace lockstep::kernels::avx2
