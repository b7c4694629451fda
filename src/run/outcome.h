#pragma once

#include <filesystem>
#include <optional>

#include "run/events.h"

namespace lockstep::run {

/// How a run's workers ended their part in it.
struct Outcome {
  enum class Kind {
    ended,      ///< the recipe's end: there is a model
    stopped,    ///< earlier, with a checkpoint
    regrouped,  ///< earlier, to go on among other workers
    dismissed,  ///< this worker is not needed any more
  };

  Kind kind = Kind::ended;
  /// The last event, of what has ended or stopped.
  Json event = {};
  /// What a dismissed worker's process ends with.
  int exit_code = 0;
};

/// How the run in a folder ended, if it has: from its last event.
std::optional<Outcome> outcome_of(const std::filesystem::path& run);

}  // namespace lockstep::run
