#include "kernels/pooling_loops.h"

namespace lockstep::kernels::avx512 {

const Pooling<float> kPooling = {max_relu<float>, max_relu_gradient<float>, mean<float>,
                                 mean_gradient<float>};

}  // namespace lockstep::kernels::avx512
