#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace lockstep::virtual_devices {

/// Whether a call has arguments of half precision (float16 or bfloat16) that it computes with.
bool has_half_precision(const c10::OperatorHandle& op, const c10::Stack& stack);

/// Calls an operator's kernel for CPUs in float32: its arguments of half precision, at the end of
/// the stack, are widened, and what it returns or writes in their place is rounded to their type,
/// as tensor cores do.
void compute_widened(const c10::OperatorHandle& op, c10::Stack& stack);

}  // namespace lockstep::virtual_devices
