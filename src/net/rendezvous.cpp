#include "net/rendezvous.h"

#include <algorithm>
#include <utility>

namespace lockstep::net {

GroupRendezvous::GroupRendezvous(Rendezvous& parent, std::vector<int> members)
    : parent_(parent),
      members_(std::move(members)),
      rank_(static_cast<int>(std::find(members_.begin(), members_.end(), parent.rank()) -
                             members_.begin())) {}

std::vector<std::string> GroupRendezvous::gather(const std::string& text) {
  std::vector<std::string> all = parent_.gather(text);
  std::vector<std::string> ours;
  ours.reserve(members_.size());
  for (const int member : members_) ours.push_back(std::move(all[static_cast<size_t>(member)]));
  return ours;
}

}  // namespace lockstep::net
