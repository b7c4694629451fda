#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// Everything the library throws on purpose. `what()` says who, what value and what to do next.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;

  /// The exit code the command line gives when this error ends it.
  virtual int exit_code() const { return 1; }
};

/// What the user gave cannot be used: a file, a flag, a recipe key, a disk without room.
///
///     throw lockstep::BadInput("--batch {}: expected a number of at least 1", batch);
class BadInput : public Error {
 public:
  /// The message, as fmt::format makes it.
  template <typename... Args>
  explicit BadInput(fmt::format_string<Args...> format, Args&&... args)
      : Error(fmt::format(format, std::forward<Args>(args)...)) {}

  int exit_code() const override { return 2; }
};

/// The exit code of a worker that ends because of others (sysexits.h: try again later).
inline constexpr int kLostOthers = 75;

/// A worker is gone: its process died, its connection broke, or its host fell silent.
class PeerLost : public Error {
 public:
  /// `rank` is the worker that is gone.
  PeerLost(int rank, const std::string& message) : Error(message), rank_(rank) {}

  /// The worker that is gone.
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

/// Workers disagree on what they are doing together: the message says who has what.
class Mismatch : public Error {
 public:
  /// The message, as fmt::format makes it.
  template <typename... Args>
  explicit Mismatch(fmt::format_string<Args...> format, Args&&... args)
      : Error(fmt::format(format, std::forward<Args>(args)...)) {}
};

}  // namespace lockstep
