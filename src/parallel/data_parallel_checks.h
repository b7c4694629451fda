#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/range.h"

namespace lockstep::parallel {

// What DataParallel refuses, by BadInput.

/// Devices of different kinds, that do not exist or are listed twice, or none. Returns them as
/// tensors have them.
std::vector<torch::Device> checked_devices(std::vector<torch::Device> devices);

/// A model with a parameter or buffer that is not on the first device.
void require_on_first_device(const torch::nn::Module& model, torch::Device first);

/// Inputs that are neither on the host nor on the first device, or have different numbers of
/// samples. Returns that number.
int64_t samples_of(const std::vector<torch::Tensor>& inputs, torch::Device first);

/// Results that have not as many samples in dimension 0 as the device's part of the batch.
void require_samples(const std::vector<torch::Tensor>& results, int64_t samples,
                     torch::Device device);

/// Rethrows the exception that is being handled, with the device and its samples.
[[noreturn]] void rethrow_with(torch::Device device, Range samples);

}  // namespace lockstep::parallel
