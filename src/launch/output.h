#pragma once

#include <poll.h>

#include <deque>
#include <string>
#include <vector>

namespace lockstep::launch {

/// What a worker writes to one of its standard streams, on its way to ours: line by line, each with
/// the worker's prefix, so that lines of several workers do not mix. The last lines are kept.
class OutputLine {
 public:
  /// Both throw Error where no pipe is to be had.
  OutputLine(int stream, std::string prefix);
  ~OutputLine();
  OutputLine(OutputLine&& other) noexcept;
  OutputLine& operator=(OutputLine&&) = delete;

  /// In the worker: makes the stream lead here.
  void become_stream();
  /// In the launcher: the worker's end is the worker's.
  void close_worker_end();

  /// What to wait for; nothing (-1) once the worker has closed it.
  pollfd waits_for() const { return {read_end_, POLLIN, 0}; }
  bool open() const { return read_end_ >= 0; }

  /// Passes on what has come, without waiting.
  void pump();
  /// Passes on what is left, whole line or not.
  void flush();

  const std::deque<std::string>& tail() const { return tail_; }

 private:
  void pass_on(std::string_view text);
  void write_line(std::string_view line);

  int stream_;
  std::string prefix_;
  int read_end_ = -1;
  int write_end_ = -1;
  std::string rest_;  ///< of a line that has not ended
  std::deque<std::string> tail_;
};

}  // namespace lockstep::launch
