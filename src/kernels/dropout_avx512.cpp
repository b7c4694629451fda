#include "kernels/dropout_loops.h"

namespace lockstep::kernels::avx512 {

const Dropout kDropout = drop;

}  // namespace lockstep::kernels::avx512
