#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep::launch {

/// How a worker ended.
struct Ending {
  int rank = 0;
  int pid = 0;
  int status = 0;                       ///< as waitpid gives it
  int place = 0;                        ///< 1: ended first
  std::string host;                     ///< on which it ran
  bool hung = false;                    ///< it did not end by itself, and was killed here
  std::vector<std::string> last_words;  ///< the end of its stderr, where that was read here

  bool well() const { return status == 0; }
  /// "rank 1 (node7, pid 4711) was killed by signal 9 (Killed)", and its last words.
  std::string text() const;
  /// The exit code that stands for it: the worker's own, or 128 + its signal.
  int exit_code() const;
};

/// Which workers' output goes through this process, line by line with the rank in front.
enum class Prefixed {
  none,
  others,  ///< all but rank 0's, which may draw on the terminal
  all,
};

struct WorkersOptions {
  int count = 1;
  int first_rank = 0;  ///< of the workers started here
  Prefixed prefixed = Prefixed::none;
  /// How long the others may take to end by themselves when one has ended badly.
  double patience_seconds = 3;
};

/// Runs `worker_main(rank)` in new processes, each on processors of its own as far as there are,
/// and returns when all have ended: in order of rank. When one ends badly, the others get some time
/// to end by themselves, and are then killed. SIGINT and SIGTERM are passed on to the workers;
/// given again, they are killed. Workers do not outlive this process. Call it before any thread is
/// started.
std::vector<Ending> run_workers(const WorkersOptions& options,
                                const std::function<int(int rank)>& worker_main);

/// The worker that is the cause where others followed: the first that ended badly for a reason of
/// its own; else one that hung; else the first that ended badly. Nothing if all ended well.
const Ending* first_failure(const std::vector<Ending>& endings);

/// A TCP port of this machine that nobody listens on at the moment.
int free_port();

}  // namespace lockstep::launch
