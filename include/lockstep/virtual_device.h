#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/device_memory.h"

namespace at {
class Tensor;
}

namespace lockstep {

/// What virtual devices are like.
struct VirtualDeviceOptions {
  /// How many there are: `virtual:0`, `virtual:1`, ...
  int count = 1;
  /// The memory of each, in bytes; 0: no limit.
  int64_t memory_bytes = 0;
  /// Whether a call of an operator returns when the device has computed it (`inlined`, in the
  /// caller's thread), or at once: then a thread of the device computes, as a GPU does, and the
  /// host waits only where it needs values.
  enum class Mode { inlined, asynchronous };
  /// How they compute.
  Mode mode = Mode::inlined;
  /// The cores of each asynchronous device; 0: an equal share of this process's cores.
  int cores = 0;
  /// Bytes per second of copies between the host and a device, and between devices; 0: as fast as
  /// this machine copies.
  double copy_bandwidth = 0;
  /// Seconds that each such copy takes besides.
  double copy_latency = 0;
  /// Tasks of asynchronous devices are delayed by up to this many seconds, at random: for tests of
  /// whether a program waits where it must.
  double largest_delay = 0;

  /// Whether all of them are equal.
  bool operator==(const VirtualDeviceOptions&) const = default;
};

/// Makes virtual devices, on which LibTorch computes as on accelerators, without a GPU. A program
/// for several devices can then be run, fail (out of memory) and be tested on a plain CPU.
///
///     lockstep::make_virtual_devices({.count = 2, .memory_bytes = int64_t{1} << 30});
///     const torch::Device device = lockstep::virtual_device(1);
///     torch::nn::Linear model(4, 2);
///     model->to(device);
///     const auto y = model(torch::randn({8, 4}, device));
///     y.sum().backward();
///     const int64_t bytes = lockstep::memory_of(device).in_use;
///
/// A virtual device computes by LibTorch's kernels for CPUs, so results have the same bits as on
/// the CPU. Its memory is host memory, but tensors hide its address: code that uses `data_ptr()` of
/// a device tensor on the host ends in a segmentation fault, and a message says why. Tensors of
/// different devices in one operation are an error, as they are with real devices.
///
/// LibTorch has one place for such devices, PrivateUse1: in messages of LibTorch 1 they are called
/// `privateuseone:0`. Call this once per process, before the first backward pass: a
/// second call with other options throws BadInput.
void make_virtual_devices(const VirtualDeviceOptions& options);

/// How many virtual devices there are; 0 before `make_virtual_devices`.
int virtual_device_count();

/// Virtual device number `index`. Throws BadInput if there is none.
c10::Device virtual_device(int index);

/// The memory of a virtual device, or of the CPU once `limit_cpu_memory` was called. Throws
/// BadInput for other devices.
DeviceMemory memory_of(c10::Device device);

/// Waits until a virtual device has computed all that it was asked for. Throws what an operator has
/// thrown meanwhile. Does nothing if the device is not asynchronous.
void synchronize(c10::Device device);

/// Runs a kernel of your own on a virtual device: `kernel` gets CPU tensors over the memory of
/// `tensors`, which are on one device, and may change their elements.
///
///     lockstep::launch_kernel({x}, [](const std::vector<torch::Tensor>& on_cpu) {
///       on_cpu[0].data_ptr<float>()[0] = 1;
///     });
void launch_kernel(const std::vector<at::Tensor>& tensors,
                   const std::function<void(const std::vector<at::Tensor>&)>& kernel);

/// Calls a function on the device's current stream, when all that was started there before has been
/// computed; the host does not wait for it. What it throws is thrown where the host waits. (CUDA's
/// is called cudaLaunchHostFunc.)
///
///     lockstep::launch_host_function(device, [&] { end = std::chrono::steady_clock::now(); });
void launch_host_function(c10::Device device, std::function<void()> function);

/// From now on `DeviceMemory::peak` is the most that is in use after this call.
void forget_peak_memory(c10::Device device);

}  // namespace lockstep
