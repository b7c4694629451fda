#include "kernels/tile_loops.h"

namespace lockstep::kernels::avx2 {

const TileTransforms<float> kTileTransforms = {
    transform_images<OfInputs, float>, transform_images<OfGradients, float>,
    transform_results<float>, transform_filters<float>, transform_back<float>};
const TileTransforms<double> kTileTransformsOfDoubles = {
    transform_images<OfInputs, double>, transform_images<OfGradients, double>,
    transform_results<double>, transform_filters<double>, transform_back<double>};

}  // namespace lockstep::kernels::avx2
