#include "virtual_devices/copies.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <chrono>
#include <thread>
#include <utility>

#include "virtual_devices/counting_allocator.h"
#include "virtual_devices/devices.h"
#include "virtual_devices/memory.h"
#include "virtual_devices/pinned_memory.h"
#include "virtual_devices/queued_call.h"

namespace lockstep::virtual_devices {
namespace {

bool is_on_device(const at::Tensor& tensor) {
  return tensor.device().type() == kType;
}

at::Tensor on_host(const at::Tensor& tensor) {
  return is_on_device(tensor) ? alias_of(tensor) : tensor;
}

// As long as a copy of this many bytes takes by the devices' copy model, from `begin` on.
void wait_for_model(std::chrono::steady_clock::time_point begin, size_t bytes) {
  const VirtualDeviceOptions& options = Devices::get().options();
  double seconds = options.copy_latency;
  if (options.copy_bandwidth > 0) seconds += static_cast<double>(bytes) / options.copy_bandwidth;
  if (seconds > 0)
    std::this_thread::sleep_until(begin +
                                  std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                      std::chrono::duration<double>(seconds)));
}

const std::string kCopy = "aten::copy_";

// A copy between aliases, or between an alias and a tensor of the host.
struct Copy {
  at::Tensor to, from;
  bool leaves_device;  ///< or comes to it

  void run() const {
    require_computed(to, kCopy);
    require_computed(from, kCopy);
    const auto begin = std::chrono::steady_clock::now();
    {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      at::Tensor(to).copy_(from);
    }
    if (leaves_device) wait_for_model(begin, from.nbytes());
  }
};

// Both devices' current streams wait for each other, as with GPUs.
void copy_between_devices(const at::Tensor& to, const at::Tensor& from, const Copy& copy) {
  const device::StreamId source = id_of(current_stream(from.device().index()));
  const device::StreamId target = id_of(current_stream(to.device().index()));
  streams().wait(source, streams().record(target));
  start_task(from.device().index(), kCopy, {{to, true}, {from, false}}, [copy] { copy.run(); });
  streams().wait(target, streams().record(source));
}

void copy_asynchronously(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  constexpr size_t kSmall = size_t{64} << 10;  // is taken at once, as with GPUs
  if (is_on_device(to) && is_on_device(from) && to.device() != from.device())
    return copy_between_devices(to, from, {on_host(to), on_host(from), true});
  const c10::DeviceIndex index = (is_on_device(to) ? to : from).device().index();
  std::vector<Use> uses;
  if (is_on_device(to)) uses.push_back({to, true});
  if (is_on_device(from)) uses.push_back({from, false});
  Copy copy{on_host(to), on_host(from), uses.size() < 2};
  bool waits = false;
  if (!is_on_device(from) && !(non_blocking && is_in_pinned_memory(from))) {
    waits = !non_blocking && from.nbytes() > kSmall;
    if (!waits) copy.from = from.clone();
  } else if (!is_on_device(to)) {
    waits = !(non_blocking && is_in_pinned_memory(to));
  }
  if (waits)
    run_task(index, kCopy, uses, [&] { copy.run(); });
  else
    start_task(index, kCopy, uses, [copy = std::move(copy)] { copy.run(); });
}

}  // namespace

at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  if (Devices::get().asynchronous()) {
    copy_asynchronously(to, from, non_blocking);
    return to;
  }
  const at::Tensor& on_device = is_on_device(to) ? to : from;
  const ComputingOn computing(&Devices::get().account(on_device.device().index()));
  Copy{on_host(to), on_host(from), to.device() != from.device()}.run();
  return to;
}

}  // namespace lockstep::virtual_devices
