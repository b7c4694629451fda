#include "elastic/dial_coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/deadline.h"
#include "lockstep/error.h"
#include "net/dial.h"
#include "net/tcp_rendezvous.h"

namespace lockstep::elastic {

net::Descriptor dial_coordinator(const MemberOptions& options) {
  net::Dial dial({options.host}, {options.port}, options.key,
                 {.kind = net::ConnectionKind::membership}, net::Dial::WhenRefused::give_up);
  const Deadline deadline = Deadline::in(options.connect_seconds);
  while (!dial.advance()) {
    if (deadline.passed())
      throw Timeout(
          {}, fmt::format("cannot connect to the job's coordinator at {}:{} within {:.0f} s "
                          "({}); check that it runs, its address and port, and "
                          "firewalls",
                          options.host, options.port, options.connect_seconds, dial.last_error()));
    if (net::is_readable(options.stop))
      throw net::Interrupted("interrupted while connecting to the coordinator");
    std::array<pollfd, 2> waits = {dial.waits_for(),
                                   pollfd{.fd = options.stop, .events = POLLIN, .revents = 0}};
    net::wait_for(waits, std::min(dial.seconds_to_next(), deadline.left()));
  }
  return dial.take();
}

}  // namespace lockstep::elastic
