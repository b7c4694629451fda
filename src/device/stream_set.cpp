#include "device/stream_set.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::device {

StreamSet::StreamSet(StreamSetOptions options)
    : options_(std::move(options)), streams_(static_cast<size_t>(options_.devices)) {}

StreamSet::~StreamSet() {
  finish();
}

void StreamSet::finish() {
  for (int device = 0; device < options_.devices; ++device)
    for (const StreamId& stream : used_streams(device)) try {
        synchronize(record(stream));
      } catch (const std::exception& error) {
        fmt::print(stderr, "lockstep: {}:{} failed, and nobody has waited for it: {}\n",
                   options_.kind, device, error.what());
      }
}

StreamSet::OrderedStream& StreamSet::find(StreamId stream) {
  if (stream.device < 0 || stream.device >= options_.devices || stream.number < 0 ||
      stream.number >= kPerDevice)
    throw BadInput("{}:{} has no stream {}", options_.kind, stream.device, stream.number);
  OrderedStream& found =
      streams_[static_cast<size_t>(stream.device)][static_cast<size_t>(stream.number)];
  if (!found.stream) {
    found.number = order_.add_stream();
    found.stream = std::make_unique<Stream>(
        StreamOptions{.name = fmt::format("{}:{}/{}", options_.kind, stream.device, stream.number),
                      .prepare =
                          [this, device = stream.device] {
                            if (options_.prepare) options_.prepare(device);
                          },
                      .largest_delay = options_.largest_delay});
  }
  return found;
}

void StreamSet::await_room(StreamId stream) {
  const Stream* awaited = nullptr;
  {
    const MutexLock lock(mutex_);
    awaited = find(stream).stream.get();
  }
  awaited->await_room();
}

StreamSet::OrderedStream& StreamSet::begin(StreamId stream, const std::string& by,
                                           const std::vector<MemoryAccess>& accesses,
                                           Stream::Task task) {
  OrderedStream& found = find(stream);
  for (const auto& [history, use] : accesses) {
    Access access = use;
    access.stream = found.number;
    access.moment = found.stream->now() + 1;
    access.by = &by;
    if (const auto earlier = order_.add(*history, access))
      throw BadInput(
          "{} {} a tensor on {}:{} that {} {} on another stream, and nothing makes this stream "
          "wait for that: record a c10::Event there and let this stream wait for it (event.block), "
          "or synchronize",
          by, access.written ? "writes" : "reads", options_.kind, stream.device, *earlier->by,
          earlier->written ? "writes" : "reads");
  }
  found.stream->start(std::move(task));
  return found;
}

void StreamSet::start(StreamId stream, const std::string& by,
                      const std::vector<MemoryAccess>& accesses, Stream::Task task) {
  await_room(stream);
  const MutexLock lock(mutex_);
  begin(stream, by, accesses, std::move(task));
}

void StreamSet::run(StreamId stream, const std::string& by,
                    const std::vector<MemoryAccess>& accesses, const Stream::Task& task,
                    Wait wait) {
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
  StreamEvent end{stream};
  await_room(stream);
  {
    const MutexLock lock(mutex_);
    find(stream).stream->refuse_own_thread();
    const OrderedStream& begun = begin(stream, by, accesses, guarded);
    end.moment = begun.stream->now();
    end.clock = order_.at(begun.number, end.moment);
  }
  if (wait == Wait::internal) end.clock.clear();
  synchronize(end);
  if (error) std::rethrow_exception(error);
  if (!ran)
    throw Error(fmt::format(
        "{}: not computed, because of an earlier error on {}:{}, which another thread got", by,
        options_.kind, stream.device));
}

StreamEvent StreamSet::record(StreamId stream) {
  const MutexLock lock(mutex_);
  const OrderedStream& recorded = find(stream);
  const Stream::Moment now = recorded.stream->now();
  return {stream, now, order_.at(recorded.number, now)};
}

void StreamSet::wait(StreamId stream, const StreamEvent& event) {
  await_room(stream);
  const MutexLock lock(mutex_);
  const OrderedStream& waiting = find(stream);
  waiting.stream->wait_for(*find(event.stream).stream, event.moment);
  order_.wait(waiting.number, event.clock);
}

bool StreamSet::query(const StreamEvent& event) {
  {
    const MutexLock lock(mutex_);
    if (!find(event.stream).stream->has_reached(event.moment)) return false;
  }
  synchronize(event);
  return true;
}

// Streams that have waited for each other have the same error, which is told once.
void StreamSet::tell_errors(Stream& stream, Stream::Moment moment) {
  try {
    stream.synchronize(moment);
  } catch (...) {
    const MutexLock lock(mutex_);
    for (const auto& device : streams_)
      for (const OrderedStream& each : device)
        if (each.stream) each.stream->forget(std::current_exception());
    throw;
  }
}

void StreamSet::synchronize(const StreamEvent& event) {
  Stream* stream = nullptr;
  {
    const MutexLock lock(mutex_);
    stream = find(event.stream).stream.get();
  }
  tell_errors(*stream, event.moment);
  const MutexLock lock(mutex_);
  order_.host_waited(event.clock);
}

std::vector<StreamId> StreamSet::used_streams(int device) {
  std::vector<StreamId> used;
  const MutexLock lock(mutex_);
  for (int number = 0; number < kPerDevice; ++number)
    if (streams_[static_cast<size_t>(device)][static_cast<size_t>(number)].stream)
      used.push_back({device, number});
  return used;
}

void StreamSet::synchronize_device(int device) {
  for (const StreamId& stream : used_streams(device)) synchronize(record(stream));
}

}  // namespace lockstep::device
