#pragma once

#include <functional>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/socket.h"

namespace lockstep::transport {

/// Where lines for the user go; nothing: to stderr.
using Log = std::function<void(const std::string&)>;

/// Stands at a listening socket and lets in only who knows the job key. Many handshakes go on at
/// once in one epoll loop; one that takes longer than two seconds is dropped, and when too many are
/// pending, or descriptors run out, the oldest is. A stranger costs a log line and nothing else.
class Doorman {
 public:
  struct Guest {
    Descriptor socket;
    Identity identity;
  };
  using Expects = HostHandshake::Expects;

  Doorman(Descriptor listener, std::string key, Expects expects, Log log);

  /// Readable when `serve` has something to do.
  int descriptor() const { return epoll_.get(); }
  /// Call `serve` after this many seconds even if nothing happened.
  double patience() const;

  /// Connections dropped so far.
  int dropped() const { return dropped_; }

  /// Does what can be done without waiting; returns who came through the door.
  std::vector<Guest> serve();

 private:
  struct Stranger {
    Descriptor socket;
    std::string address;  ///< a connection that broke has none any more
    HostHandshake handshake;
    Deadline deadline;
  };
  using Strangers = std::list<Stranger>;

  void accept_all();
  void drop_late();
  void drop(Strangers::iterator stranger, const char* why);
  bool make_room();
  void say(const std::string& line);

  Descriptor listener_;
  Descriptor epoll_;
  std::string key_;
  Expects expects_;
  Log log_;
  /// In order of arrival, and so of deadline.
  Strangers strangers_;
  std::map<int, Strangers::iterator> by_descriptor_;
  Deadline closed_until_ = Deadline::in(0);
  bool closed_ = false;
  Deadline quiet_until_ = Deadline::in(0);
  int dropped_ = 0;
  int lines_ = 0;
  int unsaid_ = 0;
};

}  // namespace lockstep::transport
