#include "virtual_devices/compute.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include "virtual_devices/learned_results.h"
#include "virtual_devices/widened_call.h"

namespace lockstep::virtual_devices {

void compute(const c10::OperatorHandle& op, c10::Stack& stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (has_half_precision(op, stack) && !only_makes_views(op.schema()))
    compute_widened(op, stack);
  else
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
}

}  // namespace lockstep::virtual_devices
