#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_annotations.h"
#include "device/access_order.h"
#include "device/stream.h"

namespace lockstep::device {

/// A stream of a device.
struct StreamId {
  int device = 0;
  int number = 0;  ///< 0: the device's default stream
};

/// A moment of a stream, and what has ended by then.
struct StreamEvent {
  StreamId stream;
  Stream::Moment moment = 0;
  Clock clock = {};
};

/// A task's use of memory with this history. The access says which bytes, and whether it writes.
struct MemoryAccess {
  AccessHistory* history;
  Access access;
};

struct StreamSetOptions {
  std::string kind;  ///< of the devices, for messages: "virtual"
  int devices = 1;
  /// Called first in the thread of each stream.
  std::function<void(int device)> prepare = nullptr;
  double largest_delay = 0;  ///< see StreamOptions
};

/// The streams of some devices: what they are asked to compute, and what waits for what. Streams
/// are made when they are first used. May be used by several threads.
class StreamSet {
 public:
  static constexpr int kPerDevice = 1 + 8;

  explicit StreamSet(StreamSetOptions options);
  /// Finishes first, since streams may wait for each other.
  ~StreamSet();

  /// Starts a task. `by` names it in messages, and lives on. Throws BadInput if the task races with
  /// one of another stream; then it is not started.
  void start(StreamId stream, const std::string& by, const std::vector<MemoryAccess>& accesses,
             Stream::Task task) EXCLUDES(mutex_);
  /// Whether a program would wait on other devices, too, so that what it does afterwards is
  /// ordered.
  enum class Wait { of_program, internal };
  /// The same, and waits for it; throws what it throws.
  void run(StreamId stream, const std::string& by, const std::vector<MemoryAccess>& accesses,
           const Stream::Task& task, Wait wait = Wait::of_program) EXCLUDES(mutex_);

  StreamEvent record(StreamId stream) EXCLUDES(mutex_);
  /// Later tasks of the stream wait for the event.
  void wait(StreamId stream, const StreamEvent& event) EXCLUDES(mutex_);
  /// Whether the event's moment is reached. Throws what a task has thrown before.
  bool query(const StreamEvent& event) EXCLUDES(mutex_);
  /// Waits for the event. Throws what a task has thrown before.
  void synchronize(const StreamEvent& event) EXCLUDES(mutex_);
  /// Waits for all streams of a device.
  void synchronize_device(int device) EXCLUDES(mutex_);
  /// Waits until what was started has ended. Prints errors that nobody has waited for.
  void finish() EXCLUDES(mutex_);

 private:
  struct OrderedStream {
    size_t number = 0;  ///< in order_
    std::unique_ptr<Stream> stream;
  };
  using Streams = std::vector<std::array<OrderedStream, kPerDevice>>;

  OrderedStream& find(StreamId stream) REQUIRES(mutex_);
  /// Waits until the stream takes another task; not while holding the lock, which the tasks that
  /// have to end first may need.
  void await_room(StreamId stream) EXCLUDES(mutex_);
  OrderedStream& begin(StreamId stream, const std::string& by,
                       const std::vector<MemoryAccess>& accesses, Stream::Task task)
      REQUIRES(mutex_);
  std::vector<StreamId> used_streams(int device) EXCLUDES(mutex_);
  void tell_errors(Stream& stream, Stream::Moment moment) EXCLUDES(mutex_);

  const StreamSetOptions options_;

  Mutex mutex_;
  AccessOrder order_ GUARDED_BY(mutex_);
  Streams streams_ GUARDED_BY(mutex_);  ///< by device, by number
};

}  // namespace lockstep::device
