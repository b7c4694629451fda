#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace lockstep::virtual_devices {

/// Calls an operator's kernel for CPUs: replaces the arguments at the end of the stack, which are
/// on the CPU, by the results.
void compute(const c10::OperatorHandle& op, c10::Stack& stack);

}  // namespace lockstep::virtual_devices
