#pragma once

#include <cstdint>

#include "kernels/conv_shape.h"

namespace lockstep::kernels {

/// Whether Winograd's way serves a convolution: 3 x 3, stride 1, whole blocks of channels on both
/// sides.
bool winograd_serves(const ConvShape& shape);

/// How weights are meant: for a convolution as LibTorch has them ([out][in][3][3]), or for the one
/// that takes its result's gradient to its input's, whose shape is `transposed()`.
enum class Weights { plain, transposed };

/// Transforms weights. Worth its memory where they are used several times and few; `holds_filters`
/// says whether they are.
bool winograd_holds_filters(const ConvShape& shape);
int64_t winograd_filter_count(const ConvShape& shape);
template <typename T>
void winograd_filters(const ConvShape& shape, Weights kind, const T* weights, T* filters);

/// How many numbers of scratch memory the functions below use.
int64_t winograd_scratch_count(const ConvShape& shape);

/// y = x convolved, both blocked; with filters that are transformed already.
template <typename T>
void winograd_convolve(const ConvShape& shape, const T* x, const T* filters, T* y, T* memory);
/// Or transforming them piece by piece.
template <typename T>
void winograd_convolve(const ConvShape& shape, const T* x, Weights kind, const T* weights, T* y,
                       T* memory);

/// The gradient with respect to the weights, as LibTorch lays them out.
template <typename T>
void winograd_weight_gradient(const ConvShape& shape, const T* x, const T* dy, T* weights,
                              T* memory);

}  // namespace lockstep::kernels
