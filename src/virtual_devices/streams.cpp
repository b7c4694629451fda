#include "virtual_devices/streams.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <omp.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <utility>

#include "lockstep/error.h"
#include "virtual_devices/devices.h"
#include "virtual_devices/memory.h"

namespace lockstep::virtual_devices {

using device::Access;
using device::Stream;

namespace {

constexpr size_t kMostDevices = 64;

thread_local std::array<c10::StreamId, kMostDevices> current_ids = {};

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

// The bytes of its storage that a tensor may use.
Access access_to(const at::Tensor& tensor) {
  const auto size = static_cast<int64_t>(tensor.element_size());
  Access access{.begin = tensor.storage_offset() * size};
  int64_t elements = tensor.numel() == 0 ? 0 : 1;
  for (int64_t i = 0; i < tensor.dim() && elements > 0; ++i)
    elements += (tensor.size(i) - 1) * tensor.stride(i);
  access.end = access.begin + elements * size;
  access.dense = elements == tensor.numel();
  return access;
}

}  // namespace

Streams& Streams::get() {
  static Streams& streams = *new Streams();  // tensors may outlive static objects
  return streams;
}

void Streams::make(const VirtualDeviceOptions& options) {
  const MutexLock lock(mutex_);
  options_ = options;
  lanes_.resize(static_cast<size_t>(options.count));
  std::atexit(&Streams::end_all);
}

// Kernels must not run while LibTorch's static objects are destroyed. Streams may wait for each
// other: all come to rest before the first one is destroyed.
void Streams::end_all() {
  std::vector<std::array<Lane, kPerDevice>> lanes;
  {
    const MutexLock lock(get().mutex_);
    std::swap(lanes, get().lanes_);
  }
  for (const auto& device : lanes)
    for (const Lane& lane : device)
      if (lane.stream) lane.stream->await(lane.stream->now());
}

Streams::Lane& Streams::lane(c10::Stream stream) {
  const auto device = static_cast<size_t>(stream.device_index());
  const auto id = static_cast<size_t>(stream.id());
  if (device >= lanes_.size() || id >= kPerDevice)
    throw BadInput("virtual:{}: no stream {}", device, stream.id());
  Lane& lane = lanes_[device][id];
  if (!lane.stream) {
    lane.number = order_.add_stream();
    lane.stream = std::make_unique<Stream>(device::StreamOptions{
        .name = fmt::format("virtual:{}/{}", device, id),
        .prepare = [this, index = stream.device_index()] { prepare_thread(index); },
        .largest_delay = options_.largest_delay});
  }
  return lane;
}

// The device's share of the process's cores, and a thread for each of them.
void Streams::prepare_thread(c10::DeviceIndex index) const {
  thread_local const ComputingOn uncounted(nullptr);
  const std::vector<int> all = cores_of_process();
  if (all.empty()) return;
  const size_t share = options_.cores > 0
                           ? static_cast<size_t>(options_.cores)
                           : std::max<size_t>(all.size() / static_cast<size_t>(options_.count), 1);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (size_t i = 0; i < share; ++i)
    CPU_SET(static_cast<size_t>(all[(static_cast<size_t>(index) * share + i) % all.size()]), &set);
  sched_setaffinity(0, sizeof(set), &set);
  at::get_num_threads();  // LibTorch sets a thread's number in its first call
  omp_set_num_threads(static_cast<int>(share));
}

void Streams::note(size_t stream, Stream::Moment moment, const std::string& by,
                   const std::vector<Use>& uses) {
  for (const Use& use : uses) {
    Access access = access_to(use.tensor);
    access.stream = stream;
    access.moment = moment;
    access.written = use.written;
    access.by = &by;
    if (const auto earlier = order_.add(block_of(use.tensor).accesses, access))
      throw BadInput(
          "{} {} a tensor on {} that {} {} on another stream, and nothing makes this stream wait "
          "for that: record a c10::Event there and let this stream wait for it (event.block), or "
          "synchronize",
          by, access.written ? "writes" : "reads", name_of(use.tensor.device()), *earlier->by,
          earlier->written ? "writes" : "reads");
  }
}

Streams::Lane& Streams::begin(c10::DeviceIndex index, const std::string& by,
                              const std::vector<Use>& uses, Stream::Task task) {
  Lane& lane = this->lane(current_stream(index));
  note(lane.number, lane.stream->now() + 1, by, uses);
  lane.stream->start(std::move(task));
  return lane;
}

void Streams::start(c10::DeviceIndex index, const std::string& by, const std::vector<Use>& uses,
                    Stream::Task task) {
  const MutexLock lock(mutex_);
  begin(index, by, uses, std::move(task));
}

void Streams::run(c10::DeviceIndex index, const std::string& by, const std::vector<Use>& uses,
                  const Stream::Task& task) {
  std::exception_ptr error;
  bool ran = false;
  const Stream::Task guarded = [&] {
    ran = true;
    try {
      task();
    } catch (...) {
      error = std::current_exception();
    }
  };
  StreamEvent end{current_stream(index)};
  {
    const MutexLock lock(mutex_);
    const Lane& lane = begin(index, by, uses, guarded);
    end.moment = lane.stream->now();
    end.clock = order_.at(lane.number, end.moment);
  }
  synchronize(end);
  if (error) std::rethrow_exception(error);
  if (!ran)
    throw Error(
        fmt::format("{}: not computed, because of an earlier error on {}, which another thread got",
                    by, name_of(end.stream.device())));
}

StreamEvent Streams::record(c10::Stream stream) {
  const MutexLock lock(mutex_);
  const Lane& lane = this->lane(stream);
  const Stream::Moment now = lane.stream->now();
  return {stream, now, order_.at(lane.number, now)};
}

void Streams::wait(c10::Stream stream, const StreamEvent& event) {
  const MutexLock lock(mutex_);
  const Lane& waiting = lane(stream);
  waiting.stream->wait_for(*lane(event.stream).stream, event.moment);
  order_.wait(waiting.number, event.clock);
}

bool Streams::query(const StreamEvent& event) {
  {
    const MutexLock lock(mutex_);
    if (!lane(event.stream).stream->has_reached(event.moment)) return false;
  }
  synchronize(event);
  return true;
}

// Streams that have waited for each other have the same error, which is told once.
void Streams::tell_errors(Stream& stream, Stream::Moment moment) {
  try {
    stream.synchronize(moment);
  } catch (...) {
    const MutexLock lock(mutex_);
    for (const auto& device : lanes_)
      for (const Lane& lane : device)
        if (lane.stream) lane.stream->forget(std::current_exception());
    throw;
  }
}

void Streams::synchronize(const StreamEvent& event) {
  Stream* stream = nullptr;
  {
    const MutexLock lock(mutex_);
    stream = lane(event.stream).stream.get();
  }
  tell_errors(*stream, event.moment);
  const MutexLock lock(mutex_);
  order_.host_waited(event.clock);
}

void Streams::synchronize(c10::DeviceIndex index) {
  std::vector<c10::Stream> used;
  {
    const MutexLock lock(mutex_);
    for (size_t id = 0; id < kPerDevice; ++id)
      if (lanes_[static_cast<size_t>(index)][id].stream)
        used.push_back(stream_of(index, static_cast<c10::StreamId>(id)));
  }
  for (const c10::Stream& stream : used) synchronize(stream);
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
  constexpr c10::StreamId kPooled = 8;
  return stream_of(index, 1 + next++ % kPooled);
}

}  // namespace lockstep::virtual_devices
