#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace lockstep::parallel {

// A tensor on its way to another memory: its elements, each once, without the gaps between them. It
// arrives with the strides that it had, since kernels may have other bits for others.

/// The elements as a contiguous vector, in the tensor's own memory if that has no gaps.
at::Tensor packed(const at::Tensor& tensor);

/// The tensor whose elements these are, in their memory if it has no gaps.
at::Tensor unpacked(const at::Tensor& elements, at::IntArrayRef sizes, at::IntArrayRef strides);

/// A copy in memory of its own, without history.
at::Tensor copied(const at::Tensor& tensor, c10::Device device);

}  // namespace lockstep::parallel
