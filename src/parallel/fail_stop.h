#pragma once

#include <exception>
#include <string>
#include <vector>

#include "lockstep/world.h"

namespace lockstep::parallel {

/// What an exception says.
std::string text_of(const std::exception_ptr& error);

/// Nothing goes on after the first error: other workers may have seen it or not, so that nobody
/// knows who is where. It is told to all of them, and thrown again whatever is asked.
class FailStop {
 public:
  /// `worlds` are those that the others may be waiting in; the first one gives the rank.
  explicit FailStop(std::vector<World> worlds) : worlds_(std::move(worlds)) {}

  template <typename Action>
  void run(const Action& action) {
    check();
    try {
      action();
    } catch (...) {
      fail(std::current_exception());
      throw;
    }
  }

  /// Throws if there was an error: PeerLost and Timeout as they were, of others an Error with what
  /// they said.
  void check() const;

  /// Keeps the first error only.
  void fail(const std::exception_ptr& error);

 private:
  std::vector<World> worlds_;
  std::exception_ptr error_;
};

}  // namespace lockstep::parallel
