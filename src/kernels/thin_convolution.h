#pragma once

#include <cstdint>

#include "kernels/conv_shape.h"

namespace lockstep::kernels {

/// The gradient with respect to the weights of a convolution whose input is plain
/// ([sample][channel][row][column]) and has few channels, such as a network's first one. (oneDNN is
/// fast for three channels, and a hundred times slower for one.)
template <typename T>
void thin_weight_gradient(const ConvShape& shape, const T* x, const T* dy, T* weights, T* memory);

/// The size of its scratch memory, in numbers.
int64_t thin_scratch_count(const ConvShape& shape);

}  // namespace lockstep::kernels
