#pragma once

#include <cstdint>

#include "kernels/conv_shape.h"

namespace lockstep::kernels {

/// Whether Winograd's algorithm supports a convolution: 3 x 3, stride 1, multiples of 8 channels on
/// both sides.
bool winograd_serves(const ConvShape& shape);

/// The number of tiles of results.
int64_t winograd_tiles(const ConvShape& shape);

/// How weights are used: for a convolution as in LibTorch ([out][in][3][3]), or for the one that
/// computes the input's gradient from the result's, whose shape is `transposed()`.
enum class Weights { plain, transposed };

/// Transforms weights. Worth its memory if they are few and used several times, which
/// winograd_holds_filters tells.
bool winograd_holds_filters(const ConvShape& shape);
int64_t winograd_filter_count(const ConvShape& shape);
template <typename T>
void winograd_filters(const ConvShape& shape, Weights kind, const T* weights, T* filters);

/// The size of the scratch memory that the functions below need, in numbers.
int64_t winograd_scratch_count(const ConvShape& shape);

/// y = x convolved, both blocked; with transformed filters.
template <typename T>
void winograd_convolve(const ConvShape& shape, const T* x, const T* filters, T* y, T* memory);
/// The same, transforming filters piece by piece.
template <typename T>
void winograd_convolve(const ConvShape& shape, const T* x, Weights kind, const T* weights, T* y,
                       T* memory);

/// The gradient with respect to the weights, as LibTorch lays them out.
template <typename T>
void winograd_weight_gradient(const ConvShape& shape, const T* x, const T* dy, T* weights,
                              T* memory);

}  // namespace lockstep::kernels
