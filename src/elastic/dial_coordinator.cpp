#include "elastic/dial_coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/deadline.h"
#include "lockstep/error.h"
#include "transport/tcp/dial.h"
#include "transport/tcp/tcp_rendezvous.h"

namespace lockstep::elastic {

transport::Descriptor dial_coordinator(const MemberOptions& options) {
  transport::Dial dial({options.host}, options.port, options.key,
                       {.purpose = transport::Purpose::membership},
                       transport::Dial::WhenRefused::give_up);
  const Deadline deadline = Deadline::in(options.connect_seconds);
  while (!dial.advance()) {
    if (deadline.passed())
      throw Timeout(
          {}, fmt::format("the job's coordinator was not reached at {}:{} in {:.0f} s "
                          "({}); check that it runs, its address and port, and "
                          "firewalls",
                          options.host, options.port, options.connect_seconds, dial.trouble()));
    if (transport::is_readable(options.stop))
      throw transport::Interrupted("interrupted while connecting to the coordinator");
    std::array<pollfd, 2> waits = {dial.waits_for(),
                                   pollfd{.fd = options.stop, .events = POLLIN, .revents = 0}};
    transport::wait_for(waits, std::min(dial.patience(), deadline.left()));
  }
  return dial.take();
}

}  // namespace lockstep::elastic
