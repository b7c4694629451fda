#include "virtual_devices/compute.h"

#include <ATen/core/LegacyTypeDispatch.h>

namespace lockstep::virtual_devices {

void compute(const c10::OperatorHandle& op, c10::Stack& stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
}

}  // namespace lockstep::virtual_devices
