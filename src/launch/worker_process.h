#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "launch/ending.h"
#include "launch/guardian.h"
#include "launch/outlet.h"
#include "launch/output.h"
#include "launch/report.h"
#include "launch/signals.h"

namespace lockstep::launch {

/// What all workers of a launcher share.
struct Surroundings {
  const Signals signals;
  const Guardian guardian;
  const Reports reports;
  Outlet out{STDOUT_FILENO};
  Outlet err{STDERR_FILENO};
};

/// A worker's process and output. The worker has its own process group, so that Ctrl-C reaches it
/// only through its launcher, and processes that it started can be killed with it.
class WorkerProcess {
 public:
  struct Start {
    int rank = 0;
    std::string noun = "rank";  ///< how messages call the number, as in Ending
    int index = 0;  ///< worker `index` of `count` on this host gets its share of processors
    int count = 1;
    bool pinned = true;
    bool prefixed = false;  ///< its output goes through the launcher, with the rank in front
  };

  /// Forks; returns in the launcher and in the new process. Throws Error if the fork fails.
  WorkerProcess(const Start& place, Surroundings& surroundings);
  ~WorkerProcess();
  WorkerProcess(WorkerProcess&& other) noexcept;
  WorkerProcess& operator=(WorkerProcess&&) = delete;

  /// Whether this is the new process, in which no other method may be used.
  bool is_here() const { return is_here_; }

  int rank() const { return ending_.rank; }
  int pid() const { return ending_.pid; }
  bool running() const { return running_; }

  void add_waits(std::vector<pollfd>& waits) const;
  /// Forwards its output; returns true once, when the process is found to have ended.
  bool ends_now();
  void send(int signal) const;

  /// How it ended, once it has.
  Ending& ending() { return ending_; }
  const Ending& ending() const { return ending_; }

  Stage stage = Stage::unknown;  ///< as last reported

 private:
  void become_worker(const Start& place, int parent);
  void finish();

  Surroundings* surroundings_;
  Ending ending_;
  int process_ = -1;  ///< a pidfd, readable once the process has ended
  std::vector<OutputLine> output_;
  bool running_ = false;
  bool is_here_ = false;
};

/// Ends a worker's process: flushes stdout and runs no destructors, since objects from before the
/// fork belong to the launcher.
[[noreturn]] void end_worker(int exit_code);

/// Writes everything that is left in the outlets. After a signal (`signal_came`, or one that
/// arrives now) it gives up within a second if nobody reads.
void finish_output(Surroundings& surroundings, bool signal_came);

}  // namespace lockstep::launch
