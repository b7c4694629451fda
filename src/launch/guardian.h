#pragma once

#include <string>

namespace lockstep::launch {

/// A small process that waits until its launcher ends, in whatever way, and then kills what is left
/// of the launcher's workers: their process groups, and every process that inherited their
/// environment, even if it is in another session.
class Guardian {
 public:
  /// Throws Error if the process cannot be started.
  Guardian();
  /// Returns when no marked process is left.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  /// In a worker: marks this process and those that it starts, by an environment variable.
  void mark_this_process() const;

  /// A worker, which leads the process group `pid`, has started or ended.
  void started(int pid) const;
  void ended(int pid) const;

 private:
  void tell(int pid) const;

  std::string mark_;
  int pipe_ = -1;
  int pid_ = -1;
};

}  // namespace lockstep::launch
