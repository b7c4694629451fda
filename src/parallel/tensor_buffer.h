#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "collective/communicator.h"

namespace lockstep::parallel {

/// Throws BadInput for types that collectives do not support, such as complex numbers. The message
/// calls the tensor `what`.
Type element_type(at::ScalarType type, const std::string& what = "tensor");
at::ScalarType scalar_type(Type type);

/// Whether the group's transport carries the memory of this device. Otherwise collectives need its
/// elements in host memory.
bool is_carried(at::Device device, collective::Communicator& group);

/// The elements of a contiguous tensor that is on the CPU, or whose device's memory the group
/// carries. Throws BadInput otherwise.
collective::Buffer buffer_of(const at::Tensor& tensor, collective::Communicator& group);

/// "cpu", "virtual:0".
std::string device_name(at::Device device);

/// "Float 3x4".
std::string describe(const at::Tensor& tensor);

}  // namespace lockstep::parallel
