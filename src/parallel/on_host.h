#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace lockstep::parallel {

/// Calls `kernel` with CPU tensors that have the elements of `tensors`, which are on one device;
/// afterwards those have the elements that it left. On the CPU they are the tensors themselves; on
/// a virtual device the kernel computes in its memory; on others they are copies.
void on_host(const std::vector<at::Tensor>& tensors,
             const std::function<void(const std::vector<at::Tensor>&)>& kernel);

}  // namespace lockstep::parallel
