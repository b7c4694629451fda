#include "kernels/product_loops.h"

namespace lockstep::kernels::avx512 {

const Products<float> kProducts = {gather<float>,    outer<float>,          strips<float>,
                                   transpose<float>, transpose_back<float>, copy<float>};

}  // namespace lockstep::kernels::avx512
