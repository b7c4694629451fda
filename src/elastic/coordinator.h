#pragma once

#include <poll.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "elastic/membership.h"
#include "net/acceptor.h"
#include "net/frame_link.h"

namespace lockstep::elastic {

struct CoordinatorOptions {
  std::string host;  ///< where to listen; "127.0.0.1" for a job of one host
  uint16_t port = 0;
  std::string key;              ///< what only the job's workers know
  double silence_seconds = 10;  ///< until a worker that says nothing is lost
  Membership::Bounds limits;
  std::function<void(const std::string& message)> tell;
};

/// Lives in the launcher of a job whose workers come and go: hears from all of them, on whatever
/// host, and tells them with whom to work. Never waits.
class Coordinator {
 public:
  /// Throws BadInput where the port is taken.
  explicit Coordinator(const CoordinatorOptions& options);

  /// What to wait for before `serve` has something to do, and for how many seconds at most.
  void add_waits(std::vector<pollfd>& waits) const;
  double patience() const;
  void serve();

  /// In a worker that was forked off: what is the launcher's is closed here.
  void close_here();

  /// The process `pid`, of this launcher's, has been started in one of this host's places, or has
  /// ended.
  void started(int pid, int place);
  void ended(int pid);
  /// Processes of this launcher's that are not with us any more, if they still run: to be killed,
  /// so that none of them goes on writing.
  std::vector<int> take_condemned();

  void stop() { membership_.stop(); }
  const Membership& membership() const { return membership_; }

 private:
  struct Guest {
    net::FrameLink link;
    bool member = false;
    int pid_here = 0;  ///< 0: not one of this launcher's
    bool condemned = false;
    Deadline silent;  ///< once it has said nothing for too long
  };

  void welcome();
  void hear(MemberId id, Guest& guest);
  void hear(MemberId id, Guest& guest, const std::string& text);
  void admit(MemberId id, Guest& guest, const Hello& hello);
  void answer(Guest& guest, const Control& control);
  void part_from_who_is_gone();
  void carry_out(const std::vector<Order>& orders);
  void beat();
  void tell_shortage();

  const CoordinatorOptions options_;
  std::optional<net::Acceptor> acceptor_;
  Membership membership_;
  std::map<MemberId, Guest> guests_;
  std::map<int, int> places_;  ///< of this launcher's processes, by pid
  std::vector<int> condemned_;
  MemberId next_id_ = 1;
  Deadline next_beat_ = Deadline::in(0);
  std::optional<Deadline> short_since_;  ///< until it is told that workers are missing
};

}  // namespace lockstep::elastic
