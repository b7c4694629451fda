#pragma once

// What tests and the stand-in for libnccl tell each other. The stand-in is a shared library with
// NCCL's C interface whose devices are streams of host threads. It checks how it is called and can
// be told to fail.
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transport/nccl/api.h"

namespace lockstep::nccl_stand_in {

/// What the handle of a stream points to.
struct Stream {
  static constexpr uint64_t kMagic = 0x6e63'636c'7374'726d;

  uint64_t magic = kMagic;
  int device = 0;

  virtual ~Stream() { magic = 0; }
  /// Calls `job` when all that was put there before is done; it returns when it is done itself.
  virtual void put(std::function<void()> job) = 0;
  /// Whether these bytes are memory of the stream's device.
  virtual bool owns(const void* data, size_t bytes) const = 0;
};

/// A call as it was made.
struct Call {
  int rank = -1;  ///< -1: of no communicator
  std::string function;
  const void* stream = nullptr;
  size_t count = 0;
  int peer = -1;
};

enum class Fault {
  none,
  refused,      ///< the call returns `result`
  async_error,  ///< it succeeds, and `result` is reported later; its work never ends
  hang,         ///< its work never ends
};

struct Control {
  // Set before ranks connect.
  int version = 22203;
  int polls_in_progress = 3;  ///< for so many polls a call is in progress, and does nothing
  Fault fault = Fault::none;
  int fault_rank = 0;
  std::string fault_function;  ///< ncclGroupEnd, ncclAllReduce, ncclCommInitRankConfig, ...
  int fault_call = 0;          ///< which of that rank's calls of it: 0 is the first
  transport::nccl::Result result = transport::nccl::Result::unhandled_cuda_error;

  std::mutex mutex;
  // Guarded by mutex.
  std::vector<Call> calls;
  std::vector<std::string> violations;  ///< of NCCL's rules
  std::map<std::thread::id, int> current_devices;

  std::vector<Call> calls_of(const std::string& function) {
    const std::lock_guard lock(mutex);
    std::vector<Call> found;
    for (const Call& call : calls)
      if (call.function == function) found.push_back(call);
    return found;
  }
  std::vector<std::string> all_violations() {
    const std::lock_guard lock(mutex);
    return violations;
  }
};

/// The symbol of the function that returns this process's Control.
inline constexpr const char* kControlSymbol = "nccl_stand_in_control";

}  // namespace lockstep::nccl_stand_in
