#pragma once

#include <string>
#include <vector>

namespace lockstep::launch {

/// How a worker ended.
struct Ending {
  int rank = 0;
  std::string noun = "rank";  ///< "worker" where its rank changes, and `rank` is its place here
  int pid = 0;
  int status = 0;                       ///< as waitpid gives it
  int place = 0;                        ///< 1: ended first
  std::string host;                     ///< on which it ran
  bool hung = false;                    ///< it did not end by itself, and was killed here
  bool early = false;                   ///< it ended well, and others waited for it in vain
  bool as_asked = false;                ///< it ended because the launcher passed a signal on
  std::vector<std::string> last_words;  ///< the end of its stderr, where that was read here

  bool well() const { return status == 0 && !early; }
  /// "rank 1 (node7, pid 4711) was killed by signal 9 (Killed)", and its last words.
  std::string text() const;
  /// The exit code that stands for it: the worker's own, or 128 + its signal; kLostOthers where it
  /// ended too early.
  int exit_code() const;
};

/// The worker that is the cause where others followed: one that ended too early; else the first
/// that ended badly for a reason of its own; else one that hung; else the first that ended badly.
/// Nothing if all ended well, or as they were asked to.
const Ending* first_failure(const std::vector<Ending>& endings);

/// The exit code that stands for all: the failure's, if there was one; else that of workers that
/// ended as they were asked to.
int exit_code_of(const std::vector<Ending>& endings);

/// Where all who ended badly had lost others, and one ended well before them or is the one that
/// they say they lost: that one left early.
void find_who_left_early(std::vector<Ending>& endings);

}  // namespace lockstep::launch
