#pragma once

#include <exception>
#include <string>
#include <vector>

#include "lockstep/world.h"

namespace lockstep::parallel {

/// An exception's message.
std::string text_of(const std::exception_ptr& error);

/// Stops everything after the first error: other workers may or may not have seen it, so that their
/// states may differ. The error is sent to all workers, and every later call throws it again.
class FailStop {
 public:
  /// `worlds` are those in which other workers may wait; the first one gives the rank.
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

  /// Throws if there was an error: PeerLost and Timeout as they were, others as an Error with their
  /// message.
  void check() const;

  /// Records the first error; later ones are ignored.
  void fail(const std::exception_ptr& error);

 private:
  std::vector<World> worlds_;
  std::exception_ptr error_;
};

}  // namespace lockstep::parallel
