#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

namespace lockstep::transport::nccl {

// NCCL's C interface, as far as it is used here, by our own names. nccl_header_check.cpp compares
// these declarations with those of NCCL's header, where that is installed.

enum class Result : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

enum class DataType : int { i8 = 0, u8 = 1, i32 = 2, i64 = 4, f16 = 6, f32 = 7, f64 = 8, bf16 = 9 };

enum class Reduction : int { sum = 0, max = 2, min = 3 };

struct UniqueId {
  std::array<char, 128> bytes = {};
};

/// The members that NCCL 2.14 has; later versions read as many as `size` says.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

/// NCCL's communicator and CUDA's stream.
struct Comm;
using Stream = void*;

struct Api {
  Result (*get_unique_id)(UniqueId* id);
  Result (*comm_init_rank_config)(Comm** comm, int ranks, UniqueId id, int rank, Config* config);
  Result (*comm_finalize)(Comm* comm);
  Result (*comm_destroy)(Comm* comm);
  Result (*comm_abort)(Comm* comm);
  Result (*comm_get_async_error)(Comm* comm, Result* error);
  const char* (*get_error_string)(Result result);
  const char* (*get_last_error)(Comm* comm);
  Result (*group_start)();
  Result (*group_end)();
  Result (*send)(const void* from, size_t count, DataType type, int peer, Comm* comm,
                 Stream stream);
  Result (*receive)(void* into, size_t count, DataType type, int peer, Comm* comm, Stream stream);
  Result (*all_reduce)(const void* from, void* into, size_t count, DataType type,
                       Reduction reduction, Comm* comm, Stream stream);
};

/// Communicators that do not block came with it.
inline constexpr int kOldestVersion = 21403;

/// "2.22.3" for 22203, "2.7.8" for 2708.
std::string version_text(int version);

/// NCCL, which is loaded when a transport needs it: so one build of Lockstep serves machines with
/// and without it.
class Library {
 public:
  /// Loads what the environment variable LOCKSTEP_NCCL names, or libnccl.so.2. Throws BadInput if
  /// there is none, or if it is too old.
  static std::shared_ptr<const Library> load();

  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const Api& api() const { return api_; }
  int version() const { return version_; }

 private:
  Library() = default;

  void* handle_ = nullptr;
  Api api_ = {};
  int version_ = 0;
};

}  // namespace lockstep::transport::nccl
