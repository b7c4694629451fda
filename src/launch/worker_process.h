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

/// What all workers that a launcher starts have in common.
struct Surroundings {
  const Signals signals;
  const Guardian guardian;
  const Reports reports;
  Outlet out{STDOUT_FILENO};
  Outlet err{STDERR_FILENO};
};

/// A worker: its process, and what that writes. It has a process group of its own, so that Ctrl-C
/// reaches it once, through its launcher, and so that what it started itself can be ended with it.
class WorkerProcess {
 public:
  struct Start {
    int rank = 0;
    std::string noun = "rank";  ///< what messages call the number, as in Ending
    int index = 0;              ///< worker `index` of `count` here gets its share of processors
    int count = 1;
    bool prefixed = false;  ///< what it writes comes through here, with its rank in front
  };

  /// Forks: returns here and, as a worker, in the new process. Throws Error where that cannot be.
  WorkerProcess(const Start& place, Surroundings& surroundings);
  ~WorkerProcess();
  WorkerProcess(WorkerProcess&& other) noexcept;
  WorkerProcess& operator=(WorkerProcess&&) = delete;

  /// Whether this is the new process, where nothing else of this object is of use.
  bool is_here() const { return is_here_; }

  int rank() const { return ending_.rank; }
  int pid() const { return ending_.pid; }
  bool running() const { return running_; }

  void add_waits(std::vector<pollfd>& waits) const;
  /// Passes its output on, and sees whether it has ended: true in the moment it is found out.
  bool ends_now();
  void send(int signal) const;

  /// How it ended, once it has.
  Ending& ending() { return ending_; }
  const Ending& ending() const { return ending_; }

  Stage stage = Stage::unknown;  ///< as it was told

 private:
  void become_worker(const Start& place, int parent);
  void finish();

  Surroundings* surroundings_;
  Ending ending_;
  int process_ = -1;  ///< a descriptor that tells when it ends
  std::vector<OutputLine> output_;
  bool running_ = false;
  bool is_here_ = false;
};

/// Ends a worker's process: what is written leaves, and nothing is destroyed that the launcher had
/// before it forked.
[[noreturn]] void end_worker(int exit_code);

/// Writes all that workers left in the outlets; a reader that takes nothing can be given up by a
/// signal, whether one `came` before or comes now.
void finish_output(Surroundings& surroundings, bool signal_came);

}  // namespace lockstep::launch
