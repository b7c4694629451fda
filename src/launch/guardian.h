#pragma once

#include <string>

namespace lockstep::launch {

/// A small process that outlives a launcher by a moment, however that ends, and then kills what is
/// left of its workers: their process groups, and every process that was started with their
/// environment, also in a session of its own.
class Guardian {
 public:
  /// Throws Error where no process is to be had.
  Guardian();
  /// Returns when nothing is left.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  /// In a worker: it and what it starts can be told from all other processes.
  void mark_this_process() const;

  /// A worker that leads the process group of its number has started, or has ended.
  void started(int pid) const;
  void ended(int pid) const;

 private:
  void tell(int pid) const;

  std::string mark_;
  int pipe_ = -1;
  int pid_ = -1;
};

}  // namespace lockstep::launch
