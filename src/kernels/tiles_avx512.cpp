#include "kernels/tile_loops.h"

namespace lockstep::kernels::avx512 {

const TileTransforms<float> kTileTransforms = {
    transform_images<OfInputs, float>, transform_images<OfGradients, float>,
    transform_results<float>, transform_filters<float>, transform_back<float>};

}  // namespace lockstep::kernels::avx512
