#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/element.h"
#include "base/thread_annotations.h"
#include "transport/nccl/api.h"
#include "transport/transport.h"

namespace lockstep::transport::nccl {

/// Whether NCCL can reduce elements of a type.
bool has_type(Type type);

/// What NCCL reported.
class NcclError : public Error {
 public:
  NcclError(Result result, const std::string& message) : Error(message), result_(result) {}

  /// Whether it may be because of another rank, or of the network, rather than of this rank.
  bool may_be_a_peers() const {
    return result_ == Result::remote_error || result_ == Result::system_error;
  }

 private:
  Result result_;
};

/// An NCCL communicator that does not block: every call returns at once. Until `settled` is true,
/// NCCL may not have put what was asked for into the stream, and nothing else may be put there or
/// asked of NCCL, except `abort`. All members throw NcclError.
class NcclComm {
 public:
  /// Begins to connect the ranks that have this id.
  NcclComm(std::shared_ptr<const Library> library, int world, const UniqueId& id, int rank);
  /// Aborts, unless `close` was called.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  bool settled() EXCLUDES(mutex_);

  /// All messages at once, as bytes.
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                Stream stream) EXCLUDES(mutex_);

  /// In place.
  void all_reduce(std::byte* data, int64_t count, Type type, Operation operation, Stream stream)
      EXCLUDES(mutex_);

  /// Begins to say goodbye; when `settled`, `close` frees what NCCL holds.
  void finalize() EXCLUDES(mutex_);
  void close() EXCLUDES(mutex_);

  /// Ends NCCL's work in the stream. From any thread. All later calls throw Error.
  void abort() noexcept EXCLUDES(mutex_);

 private:
  Comm* usable() REQUIRES(mutex_);
  void check(Result result, const char* call) REQUIRES(mutex_);

  const std::shared_ptr<const Library> library_;
  const Api& api_;
  Mutex mutex_;  ///< of all calls of NCCL: it allows one thread at a time
  Comm* comm_ GUARDED_BY(mutex_) = nullptr;  ///< nullptr: closed or aborted
};

}  // namespace lockstep::transport::nccl
