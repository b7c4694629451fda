#pragma once

#include <filesystem>
#include <string>

namespace lockstep::train {

/// What is left of a run that failed.
enum class Remains { nothing, checkpoint };

/// Adds a `failure` event to the story of the run in `out`, unless that has come to its end or was
/// stopped, or another process is at it. Says whether there is a checkpoint to go on from; nothing
/// for a run that has nothing left to do. For whoever is left when workers are gone.
Remains record_failure(const std::filesystem::path& out, const std::string& message) noexcept;

}  // namespace lockstep::train
