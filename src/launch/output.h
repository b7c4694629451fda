#pragma once

#include <poll.h>

#include <deque>
#include <string>
#include <vector>

#include "launch/outlet.h"

namespace lockstep::launch {

/// What a worker writes to one of its standard streams, on its way to ours: line by line, each with
/// the worker's prefix, so that lines of several workers do not mix. The last lines are kept.
class OutputLine {
 public:
  /// `stream` is the worker's, `outlet` where its lines go. Throws Error where no pipe is to be
  /// had.
  OutputLine(int stream, Outlet& outlet, std::string prefix);
  ~OutputLine();
  OutputLine(OutputLine&& other) noexcept;
  OutputLine& operator=(OutputLine&&) = delete;

  /// In the worker: makes the stream lead here.
  void become_stream() const;
  /// In the launcher: the worker's end is the worker's.
  void close_worker_end();

  pollfd waits_for() const { return {read_end_, POLLIN, 0}; }
  /// Whether to wait for more: not once the worker has closed it, nor while nobody reads ours.
  bool wanted() const { return read_end_ >= 0 && !outlet_->full(); }

  /// Passes on some of what has come, without waiting: a worker that writes a lot must not keep us
  /// from everything else.
  void pump();
  /// Passes on all that is left of a worker that has ended, whole line or not.
  void finish();

  const std::deque<std::string>& tail() const { return tail_; }

 private:
  void read_at_most(size_t bytes);
  void end();
  void pass_on(std::string_view text);
  void write_line(std::string_view line);

  int stream_;
  Outlet* outlet_;
  std::string prefix_;
  int read_end_ = -1;
  int write_end_ = -1;
  std::string rest_;  ///< of a line that has not ended
  std::deque<std::string> tail_;
};

}  // namespace lockstep::launch
