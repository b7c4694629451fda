#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// Base class of all exceptions of the library. `what()` says who (rank, host), what (value) and
/// what to do next.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;

  /// The exit code of the program if this error ends it.
  virtual int exit_code() const { return 1; }
};

/// Unusable input: a file, a flag, a recipe key, a full disk.
///
///     throw lockstep::BadInput("--batch {}: expected a number of at least 1", batch);
class BadInput : public Error {
 public:
  /// The message is made by fmt::format.
  template <typename... Args>
  explicit BadInput(fmt::format_string<Args...> format, Args&&... args)
      : Error(fmt::format(format, std::forward<Args>(args)...)) {}

  int exit_code() const override { return 2; }
};

/// The exit code of a worker that ends because of others (sysexits.h: try again later).
inline constexpr int kLostOthers = 75;

/// A worker was lost: its process died, its connection broke, or its heartbeat timed out.
class PeerLost : public Error {
 public:
  /// `rank` is the lost worker.
  PeerLost(int rank, const std::string& message) : Error(message), rank_(rank) {}

  /// The lost worker.
  int rank() const { return rank_; }
  int exit_code() const override { return kLostOthers; }

 private:
  int rank_;
};

/// Workers did not arrive before a deadline.
class Timeout : public Error {
 public:
  /// `ranks` are the missing ones.
  Timeout(std::vector<int> ranks, const std::string& message)
      : Error(message), ranks_(std::move(ranks)) {}

  /// The missing workers.
  const std::vector<int>& ranks() const { return ranks_; }
  int exit_code() const override { return kLostOthers; }

 private:
  std::vector<int> ranks_;
};

/// A device has less memory left than is asked for. Nothing was allocated: the program may go on
/// with less.
class OutOfMemory : public Error {
 public:
  /// `device` is its name; the others are bytes.
  OutOfMemory(std::string device, int64_t asked, int64_t in_use, int64_t limit,
              const std::string& message)
      : Error(message), device_(std::move(device)), asked_(asked), in_use_(in_use), limit_(limit) {}

  /// The device's name, such as "virtual:0".
  const std::string& device() const { return device_; }
  /// How many bytes were asked for.
  int64_t asked() const { return asked_; }
  /// How many bytes were in use then.
  int64_t in_use() const { return in_use_; }
  /// How many bytes the device has.
  int64_t limit() const { return limit_; }

 private:
  std::string device_;
  int64_t asked_;
  int64_t in_use_;
  int64_t limit_;
};

/// Workers disagree, for example on the model or the recipe: the message says which rank has what.
class Mismatch : public Error {
 public:
  /// The message is made by fmt::format.
  template <typename... Args>
  explicit Mismatch(fmt::format_string<Args...> format, Args&&... args)
      : Error(fmt::format(format, std::forward<Args>(args)...)) {}
};

}  // namespace lockstep
