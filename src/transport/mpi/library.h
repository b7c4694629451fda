#pragma once

#include <mpi.h>

#include <atomic>
#include <string>

#include "base/thread_annotations.h"

namespace lockstep::transport::mpi {

/// What MPI says about an error code.
std::string error_text(int code);

/// Throws Error with the call's name unless it succeeded.
void check(int code, const char* call);

/// MPI is one per process, and so is this: it initialises MPI if nobody has, lets one thread in at
/// a time, and finalises at the end of the process what it initialised.
class Library {
 public:
  static Library& get();

  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// MPI_THREAD_SERIALIZED: whoever calls MPI holds this.
  Mutex& mutex() RETURN_CAPABILITY(mutex_) { return mutex_; }

  /// From here on this process does not wait for others at its end: MPI_Finalize would, for ranks
  /// that may be gone.
  void give_up() noexcept { gave_up_ = true; }

 private:
  Library();
  ~Library();

  bool initialised_here_ = false;
  std::atomic<bool> gave_up_ = false;
  Mutex mutex_;
};

}  // namespace lockstep::transport::mpi
