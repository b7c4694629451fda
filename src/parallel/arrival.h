#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::parallel {

/// Lets the backward pass through these tensors, which are on one device, begin when the gradients
/// of all of them are there. Otherwise the order in which gradients are added behind them would
/// depend on which came first. Undefined tensors are left alone.
void arrive_together(std::vector<at::Tensor>& tensors);

/// A backward pass from several tensors of one device, in the same order in every run.
void backward_together(std::vector<at::Tensor> roots, const std::vector<at::Tensor>& gradients);

}  // namespace lockstep::parallel
