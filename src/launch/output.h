#pragma once

#include <poll.h>

#include <deque>
#include <string>
#include <vector>

#include "launch/outlet.h"

namespace lockstep::launch {

/// Forwards one of a worker's standard streams to the launcher's, line by line and with the
/// worker's prefix, so that lines of several workers do not mix. Keeps the last lines.
class OutputLine {
 public:
  /// `stream` is the worker's stream, `outlet` where its lines go. Throws Error if no pipe can be
  /// made.
  OutputLine(int stream, Outlet& outlet, std::string prefix);
  ~OutputLine();
  OutputLine(OutputLine&& other) noexcept;
  OutputLine& operator=(OutputLine&&) = delete;

  /// In the worker: connects the stream to the pipe.
  void become_stream() const;
  /// In the launcher: closes the worker's end of the pipe.
  void close_worker_end();

  pollfd waits_for() const { return {read_end_, POLLIN, 0}; }
  /// Whether to poll for more: not after the worker has closed it, nor while the outlet is full.
  bool wanted() const { return read_end_ >= 0 && !outlet_->full(); }

  /// Forwards some of what has arrived, without blocking; a limited amount, so that a worker that
  /// writes a lot does not block the launcher.
  void pump();
  /// Forwards the rest after the worker has ended, including an incomplete line.
  void finish();

  /// The last lines, without LibTorch's stack frames, which would leave no room for the message.
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
  std::string rest_;  ///< an incomplete line
  std::deque<std::string> tail_;
};

}  // namespace lockstep::launch
