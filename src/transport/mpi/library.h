#pragma once

#include <mpi.h>

#include <atomic>
#include <string>

#include "base/thread_annotations.h"

namespace lockstep::transport::mpi {

/// MPI's text for an error code.
std::string error_text(int code);

/// Throws Error with the call's name unless it succeeded.
void check(int code, const char* call);

/// MPI, of which there is one per process: initialises it unless the program has, lets one thread
/// in at a time, and finalises it at the end of the process if it initialised it.
class Library {
 public:
  static Library& get();

  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// MPI_THREAD_SERIALIZED: hold this lock while calling MPI.
  Mutex& mutex() RETURN_CAPABILITY(mutex_) { return mutex_; }

  /// From now on MPI_Finalize is skipped at the end of the process, since it would wait for ranks
  /// that may be lost.
  void give_up() noexcept { gave_up_ = true; }

 private:
  Library();
  ~Library();

  bool initialised_here_ = false;
  std::atomic<bool> gave_up_ = false;
  Mutex mutex_;
};

}  // namespace lockstep::transport::mpi
