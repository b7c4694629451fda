#pragma once

#include <filesystem>
#include <optional>

#include "run/events.h"

namespace lockstep::run {

/// How a worker's part in a run ended.
struct Outcome {
  enum class Kind {
    ended,      ///< training is complete: there is a model
    stopped,    ///< earlier, with a checkpoint
    regrouped,  ///< earlier, to continue in the next generation of workers
    dismissed,  ///< this worker is not needed any more
  };

  Kind kind = Kind::ended;
  /// The last event, if the run has ended or stopped.
  Json event = {};
  /// The exit code of a dismissed worker's process.
  int exit_code = 0;
};

/// How the run in a folder ended, according to its last event; nothing if it has not.
std::optional<Outcome> outcome_of(const std::filesystem::path& run);

}  // namespace lockstep::run
