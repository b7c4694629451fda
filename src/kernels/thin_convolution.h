#pragma once

#include <cstdint>

#include "kernels/conv_shape.h"

namespace lockstep::kernels {

/// The gradient with respect to the weights of a convolution whose input is plain
/// ([sample][channel][row][column]) and has few channels: a network's first. (oneDNN has a fast one
/// for three channels and a hundred times slower one for one.)
template <typename T>
void thin_weight_gradient(const ConvShape& shape, const T* x, const T* dy, T* weights, T* memory);

/// How many numbers of scratch memory it uses.
int64_t thin_scratch_count(const ConvShape& shape);

}  // namespace lockstep::kernels
