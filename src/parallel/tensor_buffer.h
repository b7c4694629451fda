#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "collective/communicator.h"

namespace lockstep::parallel {

/// Throws BadInput for types that collectives do not support, such as complex numbers. The message
/// calls the tensor `what`.
Type element_type(at::ScalarType type, const std::string& what = "tensor");
at::ScalarType scalar_type(Type type);

/// The elements of a tensor that is on the CPU and contiguous. Throws BadInput otherwise.
collective::Buffer buffer_of(const at::Tensor& tensor, const std::string& what = "tensor");

/// "cpu", "virtual:0".
std::string device_name(at::Device device);

/// "Float 3x4".
std::string describe(const at::Tensor& tensor);

}  // namespace lockstep::parallel
