#include "kernels/batch_norm_loops.h"

namespace lockstep::kernels::avx2 {

const BatchNorm<float> kBatchNorm = {statistics<float>, normalise<float>, gradient_sums<float>,
                                     input_gradient<float>};
const BatchNorm<double> kBatchNormOfDoubles = {statistics<double>, normalise<double>,
                                               gradient_sums<double>, input_gradient<double>};

}  // namespace lockstep::kernels::avx2
