#include "kernels/dropout_loops.h"

namespace lockstep::kernels::avx2 {

const Dropout kDropout = drop;

}  // namespace lockstep::kernels::avx2
