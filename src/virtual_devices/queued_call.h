#pragma once

#include <memory>
#include <vector>

#include "virtual_devices/learned_results.h"
#include "virtual_devices/streams.h"

namespace lockstep::virtual_devices {

/// Starts a call on the device's current stream: replaces the arguments at the end of the stack,
/// which are aliases on the CPU, by promised results.
void start_call(const c10::OperatorHandle& op, c10::Stack& stack, const Pairs& pairs,
                c10::DeviceIndex index, const std::shared_ptr<const ExpectedResults>& expected);

/// How a call uses the tensors among its arguments.
std::vector<Use> uses_of(const Pairs& pairs);

/// Throws Error if a CPU tensor over the bytes of a device has no memory yet: an earlier error has
/// kept it from being computed. `by` needs it.
void require_computed(const at::Tensor& alias, const std::string& by);

}  // namespace lockstep::virtual_devices
