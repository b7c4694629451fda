#include "transport/tcp/tcp_rendezvous.h"

#include "lockstep/error.h"
#include "transport/tcp/meeting_ends.h"

namespace lockstep::transport {

std::unique_ptr<Rendezvous> meet_over_tcp(const Meeting& meeting) {
  if (meeting.world < 1 || meeting.world > static_cast<int>(kLargestWorld))
    throw BadInput("world size {}: expected 1 to {}", meeting.world, kLargestWorld);
  if (meeting.rank < 0 || meeting.rank >= meeting.world)
    throw BadInput("rank {}: expected 0 to {}, as the world has {} ranks", meeting.rank,
                   meeting.world - 1, meeting.world);
  if (meeting.world == 1) return meet_alone();
  return meeting.rank == 0 ? host_meeting(meeting) : join_meeting(meeting);
}

}  // namespace lockstep::transport
