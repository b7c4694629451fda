#pragma once

#include <string>
#include <vector>

namespace lockstep::transport {

/// How ranks that cannot talk yet get to know each other: a notice board that all can reach.
/// Transports use it to set themselves up, and not afterwards.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  virtual int rank() const = 0;
  virtual int world() const = 0;

  /// Every rank gives a text and gets everyone's, by rank. All ranks call it equally often. Throws
  /// Timeout with the ranks that did not come, PeerLost with one that went.
  virtual std::vector<std::string> gather(const std::string& text) = 0;

  /// The address at which others reach this rank's machine; "" when the rendezvous does not know.
  virtual std::string address() const { return ""; }
};

}  // namespace lockstep::transport
