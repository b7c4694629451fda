#include "kernels/batch_norm_loops.h"

namespace lockstep::kernels::avx512 {

const BatchNorm<float> kBatchNorm = {statistics<float>, normalise<float>, gradient_sums<float>,
                                     input_gradient<float>};

}  // namespace lockstep::kernels::avx512
