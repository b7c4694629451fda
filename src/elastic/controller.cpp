#include "elastic/controller.h"

#include "base/deadline.h"
#include "elastic/dial_coordinator.h"
#include "lockstep/error.h"
#include "net/frame_link.h"

namespace lockstep::elastic {

std::string control(const MemberOptions& job, const Control& control) {
  constexpr double kSeconds = 3;
  MemberOptions options = job;
  options.connect_seconds = kSeconds;
  net::FrameLink link(dial_coordinator(options));
  link.send(net::FrameKind::membership, encode(control));
  const Deadline deadline = Deadline::in(kSeconds);
  while (!deadline.passed() && !link.closed()) {
    link.flush();
    while (const auto frame = link.receive())
      if (const auto status = parse<Status>(frame->payload)) {
        if (status->refused) throw BadInput("{}", status->text);
        return status->text;
      }
    pollfd wait = link.waits_for();
    net::wait_for({&wait, 1}, deadline.left());
  }
  throw PeerLost(0, fmt::format("the job's coordinator at {}:{} did not answer in {:g} s", job.host,
                                job.port, kSeconds));
}

}  // namespace lockstep::elastic
