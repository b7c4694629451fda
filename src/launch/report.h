#pragma once

#include <poll.h>

#include <vector>

namespace lockstep::launch {

/// How far a worker has come: what its launcher cannot see from outside.
enum class Stage : int {
  unknown,
  meeting,  ///< it waits for all others to come
  met,
};

/// In a worker: tells the launcher that started it, if that one listens.
void tell_launcher(int rank, Stage stage);

/// In a launcher: what its workers tell.
class Reports {
 public:
  struct Report {
    int rank;
    Stage stage;
  };

  /// Throws Error where no pipe is to be had.
  Reports();
  ~Reports();
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;

  /// In a worker: `tell_launcher` leads here, also in the program that it becomes.
  void reach_from_this_process() const;

  pollfd waits_for() const { return {read_end_, POLLIN, 0}; }
  /// What has come, without waiting.
  std::vector<Report> take() const;

 private:
  int read_end_ = -1;
  int write_end_ = -1;
};

}  // namespace lockstep::launch
