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
  std::string key;              ///< secret of the job's workers
  double silence_seconds = 10;  ///< a worker that sends no heartbeat for this long is lost
  Membership::Bounds limits;
  std::function<void(const std::string& message)> tell;
};

/// Runs in the launcher of node 0 of an elastic job: receives the messages of all workers on all
/// hosts, and tells them which generation to join. Never blocks.
class Coordinator {
 public:
  /// Throws BadInput if the port is in use.
  explicit Coordinator(const CoordinatorOptions& options);

  /// What to poll before calling `serve`, and for how many seconds at most.
  void add_waits(std::vector<pollfd>& waits) const;
  double patience() const;
  void serve();

  /// In a forked worker: closes the descriptors that belong to the launcher.
  void close_here();

  /// This launcher has started process `pid` in one of this host's places, or the process has
  /// ended.
  void started(int pid, int place);
  void ended(int pid);
  /// Processes of this launcher that count as lost but still run: the launcher must kill them, so
  /// that they write nothing more.
  std::vector<int> take_condemned();

  void stop() { membership_.stop(); }
  const Membership& membership() const { return membership_; }

 private:
  struct Guest {
    net::FrameLink link;
    bool member = false;
    int pid_here = 0;  ///< 0: not started by this launcher
    bool condemned = false;
    Deadline silent;  ///< when its heartbeat timeout ends
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
  std::optional<Deadline> short_since_;  ///< when to log that workers are missing
};

}  // namespace lockstep::elastic
