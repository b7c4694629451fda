#pragma once

#include <functional>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "net/handshake.h"
#include "net/socket.h"

namespace lockstep::net {

/// Receives lines for the user; none: they go to stderr.
using Log = std::function<void(const std::string&)>;

/// Accepts connections at a listening socket and hands out those whose client has proved that it
/// knows the job key. Many handshakes are under way at once, in one epoll set. One that takes
/// longer than two seconds is dropped; when too many are pending, or file descriptors run out, the
/// oldest one is. A connection that is dropped costs a line in the log and nothing else. Never
/// waits.
class Acceptor {
 public:
  struct Connection {
    Descriptor socket;
    Identity identity;
  };
  using Expects = ServerHandshake::Expects;

  /// `expects` says whether a client that knows the key is let in.
  Acceptor(Descriptor listener, std::string key, Expects expects, Log log);

  /// Readable when `serve` has something to do.
  int descriptor() const { return epoll_.get(); }
  /// Call `serve` after this many seconds even when nothing has become readable.
  double seconds_to_next() const;

  /// How many connections were dropped so far.
  int dropped() const { return dropped_; }

  /// Advances all handshakes; returns the connections that have passed theirs.
  std::vector<Connection> serve();

 private:
  struct PendingPeer {
    Descriptor socket;
    std::string address;  ///< kept, because a broken connection has none any more
    ServerHandshake handshake;
    Deadline deadline;
  };
  using PendingList = std::list<PendingPeer>;

  void accept_all();
  void drop_late();
  void drop(PendingList::iterator pending, const char* why);
  bool make_room();
  void log(const std::string& line);

  Descriptor listener_;
  Descriptor epoll_;
  std::string key_;
  Expects expects_;
  Log log_;
  PendingList pending_;  ///< in order of arrival, and so of deadline
  std::map<int, PendingList::iterator> by_descriptor_;
  bool paused_ = false;  ///< no descriptor is left for another connection
  Deadline paused_until_ = Deadline::in(0);
  int dropped_ = 0;

  // A limit on lines per time.
  Deadline log_window_ends_ = Deadline::in(0);
  int lines_in_window_ = 0;
  int lines_left_out_ = 0;
};

}  // namespace lockstep::net
