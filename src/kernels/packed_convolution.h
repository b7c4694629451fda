#pragma once

#include <cstdint>

#include "kernels/conv_shape.h"
#include "kernels/winograd.h"

namespace lockstep::kernels {

/// Convolutions of blocked images by their definition: a kernel of any size, stride and padding,
/// multiples of 8 channels.

/// Weights in the order of the functions below. Where they would be used for one group of samples
/// only, they are not worth their memory: then these functions take the weights, as LibTorch lays
/// them out, in place of filters.
bool packed_holds_filters(const ConvShape& shape, Weights kind);
int64_t packed_filter_count(const ConvShape& shape, Weights kind);
template <typename T>
void packed_filters(const ConvShape& shape, Weights kind, const T* weights, T* filters);

/// The size of the scratch memory that the functions below need, in numbers; the second of
/// packed_weight_gradient alone.
int64_t packed_scratch_count(const ConvShape& shape);
int64_t packed_weight_gradient_scratch_count(const ConvShape& shape);

/// y = x convolved; with filters of Weights::plain.
template <typename T>
void packed_convolve(const ConvShape& shape, const T* x, const T* filters, T* y, T* memory);

/// The gradient with respect to x; with filters of Weights::transposed.
template <typename T>
void packed_input_gradient(const ConvShape& shape, const T* dy, const T* filters, T* dx, T* memory);

/// The gradient with respect to the weights, as LibTorch lays them out.
template <typename T>
void packed_weight_gradient(const ConvShape& shape, const T* x, const T* dy, T* weights, T* memory);

}  // namespace lockstep::kernels
