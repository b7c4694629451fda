#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "matpow/matpow.h"
#include "matpow/timed_span.h"

namespace lockstep::matpow {

/// What is done one after another: a stream of a device, or on the CPU what this thread does. Every
/// piece of work is timed where it is done: on the stream.
class Lane {
 public:
  /// A moment of a lane; null if it is over.
  using Mark = std::shared_ptr<c10::Event>;

  /// `process` and `track` name it in traces.
  Lane(c10::Device device, std::string process, std::string track);
  /// Waits for what was run.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// `work` calls LibTorch's operators for this device. Returns when they are started; the mark is
  /// the moment of their end.
  template <typename Work>
  Mark run(Phase phase, std::string name, const Work& work) {
    std::optional<c10::StreamGuard> current;
    if (!is_host()) current.emplace(stream_);
    TimedSpan& span = spans_.emplace_back(TimedSpan{phase, std::move(name)});
    stamp(span.begin);
    work();
    stamp(span.end);
    return mark();
  }

  /// What is run here from now on begins after `mark`.
  void wait(const Mark& mark) const {
    if (mark) mark->block(stream_);
  }
  /// The host waits until all has ended.
  void synchronize() const;

  /// The spans since the last call. All must have ended.
  std::vector<TimedSpan> take_spans();

  const std::string& process() const { return process_; }
  const std::string& track() const { return track_; }
  c10::Stream stream() const { return stream_; }

 private:
  /// A time that is known when its event has happened: where the device itself measures time.
  struct Pending {
    c10::Event event;
    double& place;
  };

  bool is_host() const { return stream_.device_type() == c10::kCPU; }
  void stamp(double& place);
  Mark mark() const;

  const std::string process_, track_;
  const c10::Stream stream_;
  std::deque<TimedSpan> spans_;  // whose elements stay where they are
  std::deque<Pending> pending_;
  std::unique_ptr<c10::Event> origin_;  ///< of the pending times
  double origin_seconds_ = 0;
};

/// The lanes of one device: copies in both directions run beside what it computes.
struct DeviceLanes {
  explicit DeviceLanes(c10::Device of);

  c10::Device device;
  Lane host, copy_in, compute, copy_out;

  void synchronize() const;
};

}  // namespace lockstep::matpow
