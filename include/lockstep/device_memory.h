#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// What a device's memory is used for.
enum class MemoryUse {
  parameters,   ///< a model's parameters and buffers
  gradients,    ///< buckets
  optimizer,    ///< an optimizer's state
  activations,  ///< allocated in forward and backward passes
  workspace,    ///< of kernels, while they compute
  other,
};

/// The names of MemoryUse, in its order.
inline constexpr std::array<std::string_view, 6> kMemoryUses = {
    "parameters", "gradients", "optimizer", "activations", "workspace", "other"};

/// Bytes by use.
struct MemoryByUse {
  /// In the order of MemoryUse.
  std::array<int64_t, kMemoryUses.size()> bytes = {};

  /// The bytes of one use.
  int64_t& operator[](MemoryUse use) { return bytes[static_cast<size_t>(use)]; }
  /// The same.
  int64_t operator[](MemoryUse use) const { return bytes[static_cast<size_t>(use)]; }
};

/// The memory of a device, in bytes.
struct DeviceMemory {
  int64_t in_use = 0;        ///< now
  int64_t peak = 0;          ///< the most that was in use at once
  int64_t limit = 0;         ///< 0: none
  MemoryByUse now = {};      ///< what is in use, by use
  MemoryByUse at_peak = {};  ///< what was in use at the peak, by use
};

/// Limits what this process may have in tensors on the CPU, as if its CPU were a device with that
/// much memory: whoever asks LibTorch for more gets OutOfMemory, with nothing allocated, and may go
/// on with less. 0 is no limit: memory is then only counted. It may be called again with another
/// limit.
///
///     lockstep::limit_cpu_memory(int64_t{1} << 30);
///     const auto x = torch::ones({1000});
///     const int64_t bytes = lockstep::memory_of(torch::kCPU).in_use;
///
/// Memory that LibTorch allocated before the first call is not counted. `memory_of` is declared in
/// lockstep/virtual_device.h. Throws BadInput for less than 0.
void limit_cpu_memory(int64_t bytes);

}  // namespace lockstep
