#include "virtual_devices/libtorch.h"

#if TORCH_VERSION_MAJOR >= 2
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceType.h>
#endif

namespace lockstep::virtual_devices {

#if TORCH_VERSION_MAJOR >= 2

namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool hasPrimaryContext(c10::DeviceIndex /*index*/) const override { return true; }
  bool isBuilt() const { return true; }      // since 2.7
  bool isAvailable() const { return true; }  // since 2.7
};

}  // namespace

void name_backend() {
  c10::register_privateuse1_backend("virtual");
  at::RegisterPrivateUse1HooksInterface(new Hooks());
}

#else

void name_backend() {}

#endif

}  // namespace lockstep::virtual_devices
