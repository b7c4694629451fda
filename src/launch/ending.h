#pragma once

#include <string>
#include <vector>

namespace lockstep::launch {

/// How a worker ended.
struct Ending {
  int rank = 0;
  std::string noun = "rank";  ///< "worker" in elastic jobs, where `rank` is its place on this host
  int pid = 0;
  int status = 0;                       ///< as returned by waitpid
  int place = 0;                        ///< 1: the first that ended
  std::string host;                     ///< where it ran
  bool hung = false;                    ///< it did not end by itself and was killed by the launcher
  bool early = false;                   ///< it ended with 0 while others still waited for it
  bool as_asked = false;                ///< it ended because the launcher passed on a signal
  std::vector<std::string> last_words;  ///< the end of its stderr, if the launcher reads it

  bool well() const { return status == 0 && !early; }
  /// "rank 1 (node7, pid 4711) was killed by signal 9 (Killed)", and its last words.
  std::string text() const;
  /// By SIGKILL, and not by the launcher.
  bool was_killed() const;
  /// The worker's exit code, or 128 + its signal; kLostOthers if it ended early.
  int exit_code() const;
};

/// The worker that caused the failure: one that ended early; else the first that failed for its own
/// reason (not because others were lost); else one that hung; else the first that failed. nullptr
/// if no worker failed, or all ended because of a signal that was passed on.
const Ending* first_failure(const std::vector<Ending>& endings);

/// The exit code of the job: that of the failure, if there was one; else that of workers that ended
/// because of a signal.
int exit_code_of(const std::vector<Ending>& endings);

/// If all failed workers failed because they lost others, finds the worker that they lost: one that
/// ended with 0 and is named in their messages, or that ended before them. Marks it as `early`.
void find_who_left_early(std::vector<Ending>& endings);

}  // namespace lockstep::launch
