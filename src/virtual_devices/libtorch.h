#pragma once

// What differs between LibTorch's versions.

#include <torch/version.h>

#if TORCH_VERSION_MAJOR < 2
#define LOCKSTEP_ALLOCATE_CONST const
#define LOCKSTEP_COPY_DATA
#else
#define LOCKSTEP_ALLOCATE_CONST
#define LOCKSTEP_COPY_DATA                                                       \
  void copy_data(void* to, const void* from, std::size_t bytes) const override { \
    default_copy_data(to, from, bytes);                                          \
  }
#endif

namespace lockstep::virtual_devices {

/// Whether operators without a derivative need a rule for what autograd does with them.
constexpr bool kLacksAutogradFallback = TORCH_VERSION_MAJOR < 2;

/// Gives the devices their name in LibTorch's messages, and says that there are some: without that,
/// LibTorch 2.14's autograd refuses them. LibTorch 1 has no such function.
void name_backend();

}  // namespace lockstep::virtual_devices
