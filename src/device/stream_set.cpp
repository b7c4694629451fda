#include "device/stream_set.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::device {

StreamSet::StreamSet(StreamSetOptions options)
    : options_(std::move(options)), lanes_(static_cast<size_t>(options_.devices)) {}

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

StreamSet::Lane& StreamSet::lane(StreamId stream) {
  if (stream.device < 0 || stream.device >= options_.devices || stream.number < 0 ||
      stream.number >= kPerDevice)
    throw BadInput("{}:{} has no stream {}", options_.kind, stream.device, stream.number);
  Lane& lane = lanes_[static_cast<size_t>(stream.device)][static_cast<size_t>(stream.number)];
  if (!lane.stream) {
    lane.number = order_.add_stream();
    lane.stream = std::make_unique<Stream>(
        StreamOptions{.name = fmt::format("{}:{}/{}", options_.kind, stream.device, stream.number),
                      .prepare =
                          [this, device = stream.device] {
                            if (options_.prepare) options_.prepare(device);
                          },
                      .largest_delay = options_.largest_delay});
  }
  return lane;
}

StreamSet::Lane& StreamSet::begin(StreamId stream, const std::string& by,
                                  const std::vector<MemoryAccess>& accesses, Stream::Task task) {
  Lane& lane = this->lane(stream);
  for (const auto& [history, use] : accesses) {
    Access access = use;
    access.stream = lane.number;
    access.moment = lane.stream->now() + 1;
    access.by = &by;
    if (const auto earlier = order_.add(*history, access))
      throw BadInput(
          "{} {} a tensor on {}:{} that {} {} on another stream, and nothing makes this stream "
          "wait "
          "for that: record a c10::Event there and let this stream wait for it (event.block), or "
          "synchronize",
          by, access.written ? "writes" : "reads", options_.kind, stream.device, *earlier->by,
          earlier->written ? "writes" : "reads");
  }
  lane.stream->start(std::move(task));
  return lane;
}

void StreamSet::start(StreamId stream, const std::string& by,
                      const std::vector<MemoryAccess>& accesses, Stream::Task task) {
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
  {
    const MutexLock lock(mutex_);
    this->lane(stream).stream->refuse_own_thread();
    const Lane& lane = begin(stream, by, accesses, guarded);
    end.moment = lane.stream->now();
    end.clock = order_.at(lane.number, end.moment);
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
  const Lane& lane = this->lane(stream);
  const Stream::Moment now = lane.stream->now();
  return {stream, now, order_.at(lane.number, now)};
}

void StreamSet::wait(StreamId stream, const StreamEvent& event) {
  const MutexLock lock(mutex_);
  const Lane& waiting = lane(stream);
  waiting.stream->wait_for(*lane(event.stream).stream, event.moment);
  order_.wait(waiting.number, event.clock);
}

bool StreamSet::query(const StreamEvent& event) {
  {
    const MutexLock lock(mutex_);
    if (!lane(event.stream).stream->has_reached(event.moment)) return false;
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
    for (const auto& device : lanes_)
      for (const Lane& each : device)
        if (each.stream) each.stream->forget(std::current_exception());
    throw;
  }
}

void StreamSet::synchronize(const StreamEvent& event) {
  Stream* stream = nullptr;
  {
    const MutexLock lock(mutex_);
    stream = lane(event.stream).stream.get();
  }
  tell_errors(*stream, event.moment);
  const MutexLock lock(mutex_);
  order_.host_waited(event.clock);
}

std::vector<StreamId> StreamSet::used_streams(int device) {
  std::vector<StreamId> used;
  const MutexLock lock(mutex_);
  for (int number = 0; number < kPerDevice; ++number)
    if (lanes_[static_cast<size_t>(device)][static_cast<size_t>(number)].stream)
      used.push_back({device, number});
  return used;
}

void StreamSet::synchronize_device(int device) {
  for (const StreamId& stream : used_streams(device)) synchronize(record(stream));
}

}  // namespace lockstep::device
