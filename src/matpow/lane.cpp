#include "matpow/lane.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>
#include <iterator>

#include "lockstep/error.h"
#include "lockstep/virtual_device.h"
#include "parallel/device_streams.h"
#include "virtual_devices/devices.h"

namespace lockstep::matpow {
namespace {

c10::Stream stream_for(c10::Device device) {
  return device.is_cpu() ? c10::Stream(c10::Stream::DEFAULT, device)
                         : parallel::another_stream(device);
}

// Seconds between two events. LibTorch 1 does not know them.
template <typename Event>
double seconds_between(const Event& first, const Event& second) {
  if constexpr (requires { first.elapsedTime(second); })
    return first.elapsedTime(second) / 1e3;
  else
    throw BadInput("--device {}: measuring it needs LibTorch 2.6 or newer; use --device virtual",
                   c10::DeviceTypeName(first.device_type(), /*lower_case=*/true));
}

c10::Event timed_event(c10::Stream stream) {
  c10::Event event(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT);
  event.record(stream);
  return event;
}

}  // namespace

Lane::Lane(c10::Device device, std::string process, std::string track)
    : process_(std::move(process)), track_(std::move(track)), stream_(stream_for(device)) {
  if (is_host() || device.type() == virtual_devices::kType) return;
  origin_ = std::make_unique<c10::Event>(timed_event(stream_));
  synchronize();
  origin_seconds_ = now();
}

// Streams write into the spans that nobody has taken. Errors were told already, or are not what
// ends the program.
Lane::~Lane() {
  if (spans_.empty()) return;
  try {
    synchronize();
  } catch (const std::exception&) {
  }
}

void Lane::stamp(double& place) {
  if (is_host())
    place = now();
  else if (origin_)
    pending_.push_back({timed_event(stream_), place});
  else
    launch_host_function(stream_.device(), [&place] { place = now(); });
}

Lane::Mark Lane::mark() const {
  return is_host() ? nullptr : parallel::record_event(stream_);
}

void Lane::synchronize() const {
  if (!is_host()) c10::impl::VirtualGuardImpl(stream_.device_type()).synchronizeStream(stream_);
}

std::vector<TimedSpan> Lane::take_spans() {
  for (const Pending& each : pending_)
    each.place = origin_seconds_ + seconds_between(*origin_, each.event);
  pending_.clear();
  std::vector<TimedSpan> spans(std::make_move_iterator(spans_.begin()),
                               std::make_move_iterator(spans_.end()));
  spans_.clear();
  return spans;
}

DeviceLanes::DeviceLanes(c10::Device of)
    : device(of),
      host(c10::kCPU, virtual_devices::name_of(of), "host"),
      copy_in(of, host.process(), "copies in"),
      compute(of, host.process(), "compute"),
      copy_out(of, host.process(), "copies out") {}

void DeviceLanes::synchronize() const {
  copy_in.synchronize();
  compute.synchronize();
  copy_out.synchronize();
}

}  // namespace lockstep::matpow
