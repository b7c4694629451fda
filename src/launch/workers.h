#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep::launch {

/// How a worker ended.
struct Ending {
  int rank = 0;
  int pid = 0;
  int status = 0;  ///< as waitpid gives it
  int place = 0;   ///< 1: ended first

  bool well() const { return status == 0; }
  /// "rank 1 (pid 4711) was killed by signal 9 (Killed)".
  std::string text() const;
  /// The exit code that stands for it: the worker's own, or 128 + its signal.
  int exit_code() const;
};

/// Runs `worker_main(rank)` in `count` new processes, each on processors of its own as far as there
/// are, and returns when all have ended: in order of rank. When one ends badly, the others get
/// `patience` seconds to end by themselves, and are then killed. Workers do not outlive this
/// process. Call it before any thread is started.
std::vector<Ending> run_workers(int count, const std::function<int(int rank)>& worker_main,
                                double patience_seconds = 5);

/// The worker that ended badly first, which is the cause where others followed; nothing if all
/// ended well.
const Ending* first_failure(const std::vector<Ending>& endings);

/// A TCP port of this machine that nobody listens on at the moment.
int free_port();

}  // namespace lockstep::launch
