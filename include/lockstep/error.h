#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

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
///     throw BadInput("--batch {}: expected a number of at least 1", batch);
class BadInput : public Error {
 public:
  template <typename... Args>
  explicit BadInput(fmt::format_string<Args...> format, Args&&... args)
      : Error(fmt::format(format, std::forward<Args>(args)...)) {}

  int exit_code() const override { return 2; }
};

}  // namespace lockstep
