#include "kernels/pooling_loops.h"

namespace lockstep::kernels::avx2 {

const Pooling<float> kPooling = {max_relu<float>, max_relu_gradient<float>, mean<float>,
                                 mean_gradient<float>};
const Pooling<double> kPoolingOfDoubles = {max_relu<double>, max_relu_gradient<double>,
                                           mean<double>, mean_gradient<double>};

}  // namespace lockstep::kernels::avx2
