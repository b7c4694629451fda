#include "virtual_devices/streams.h"

#include <ATen/Parallel.h>
#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>

#include "virtual_devices/counting_allocator.h"
#include "virtual_devices/devices.h"
#include "virtual_devices/memory.h"

namespace lockstep::virtual_devices {
namespace {

constexpr size_t kMostDevices = 64;

thread_local std::array<c10::StreamId, kMostDevices> current_ids = {};

// Set once, and never destroyed, since other threads may still use it when the process ends.
device::StreamSet* all_streams = nullptr;

// Kernels must not run while LibTorch's static objects are destroyed, some of which are made by the
// first kernel that uses them, later than any function given to std::atexit before. The
// thread-local objects of the main thread are destroyed before them all.
struct FinishesWithMainThread {
  FinishesWithMainThread() = default;
  ~FinishesWithMainThread() {
    if (gettid() == getpid()) all_streams->finish();
  }
  FinishesWithMainThread(const FinishesWithMainThread&) = delete;
  FinishesWithMainThread& operator=(const FinishesWithMainThread&) = delete;
};

void finish_before_program_ends() {
  thread_local const FinishesWithMainThread finishes;
}

c10::Stream stream_of(c10::DeviceIndex index, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, index), id);
}

std::vector<int> cores_of_process() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

// The device's share of the process's cores, and a thread for each of them.
void prepare_thread(int device, const VirtualDeviceOptions& options) {
  thread_local const ComputingOn uncounted(nullptr);
  const std::vector<int> all = cores_of_process();
  if (all.empty()) return;
  const size_t share = options.cores > 0
                           ? static_cast<size_t>(options.cores)
                           : std::max<size_t>(all.size() / static_cast<size_t>(options.count), 1);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (size_t i = 0; i < share; ++i)
    CPU_SET(static_cast<size_t>(all[(static_cast<size_t>(device) * share + i) % all.size()]), &set);
  sched_setaffinity(0, sizeof(set), &set);
  at::get_num_threads();  // LibTorch sets a thread's number in its first call
  omp_set_num_threads(static_cast<int>(share));
}

// The bytes of its storage that a tensor may use.
device::Access access_to(const Use& use) {
  const auto size = static_cast<int64_t>(use.tensor.element_size());
  int64_t elements = use.tensor.numel() == 0 ? 0 : 1;
  for (int64_t i = 0; i < use.tensor.dim() && elements > 0; ++i)
    elements += (use.tensor.size(i) - 1) * use.tensor.stride(i);
  const int64_t begin = use.tensor.storage_offset() * size;
  return {.begin = begin,
          .end = begin + elements * size,
          .dense = elements == use.tensor.numel(),
          .written = use.written};
}

std::vector<device::MemoryAccess> accesses_of(const std::vector<Use>& uses) {
  std::vector<device::MemoryAccess> accesses;
  accesses.reserve(uses.size());
  for (const Use& use : uses) accesses.push_back({&block_of(use.tensor).accesses, access_to(use)});
  return accesses;
}

}  // namespace

void make_streams(const VirtualDeviceOptions& options) {
  all_streams =
      new device::StreamSet({.kind = "virtual",
                             .devices = options.count,
                             .prepare = [options](int device) { prepare_thread(device, options); },
                             .largest_delay = options.largest_delay});
  std::atexit([] { all_streams->finish(); });  // where another thread ends the program
}

device::StreamSet& streams() {
  return *all_streams;
}

device::StreamId id_of(c10::Stream stream) {
  return {stream.device_index(), static_cast<int>(stream.id())};
}

c10::Stream current_stream(c10::DeviceIndex index) {
  return stream_of(index, current_ids[static_cast<size_t>(index)]);
}

c10::Stream exchange_current_stream(c10::Stream stream) {
  const c10::Stream before = current_stream(stream.device_index());
  current_ids[static_cast<size_t>(stream.device_index())] = stream.id();
  return before;
}

c10::Stream stream_from_pool(c10::DeviceIndex index) {
  static std::atomic<c10::StreamId> next = 0;
  return stream_of(index, 1 + next++ % (device::StreamSet::kPerDevice - 1));
}

void start_task(c10::DeviceIndex index, const std::string& by, const std::vector<Use>& uses,
                device::Stream::Task task) {
  finish_before_program_ends();
  streams().start(id_of(current_stream(index)), by, accesses_of(uses), std::move(task));
}

void run_task(c10::DeviceIndex index, const std::string& by, const std::vector<Use>& uses,
              const device::Stream::Task& task, device::StreamSet::Wait wait) {
  streams().run(id_of(current_stream(index)), by, accesses_of(uses), task, wait);
}

}  // namespace lockstep::virtual_devices
