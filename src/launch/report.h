#pragma once

#include <poll.h>

#include <vector>

namespace lockstep::launch {

/// The progress of a worker, which its launcher cannot see from outside.
enum class Stage : int {
  unknown,
  meeting,  ///< it waits in the rendezvous for other workers
  met,
};

/// In a worker: reports to the launcher that started it, if that listens.
void tell_launcher(int rank, Stage stage);

/// In a launcher: the reports of its workers.
class Reports {
 public:
  struct Report {
    int rank;
    Stage stage;
  };

  /// Throws Error if no pipe can be made.
  Reports();
  ~Reports();
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;

  /// In a worker: makes `tell_launcher` write to this pipe, also after exec of a program.
  void reach_from_this_process() const;

  pollfd waits_for() const { return {read_end_, POLLIN, 0}; }
  /// The reports that have arrived; does not block.
  std::vector<Report> take() const;

 private:
  int read_end_ = -1;
  int write_end_ = -1;
};

}  // namespace lockstep::launch
