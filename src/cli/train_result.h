#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "observe/events.h"

namespace lockstep::cli {

enum class ResultFormat { text, json };

/// The result of a run that has nothing left to do, or nothing.
std::optional<observe::Json> finished_run(const std::filesystem::path& out);

/// The last thing that a run told.
std::optional<observe::Json> last_event(const std::filesystem::path& out);

/// Shows the last event of a run, "end" or "stopped", and how to go on.
void show_result(const observe::Json& last, ResultFormat format);

/// Adds a failure to a run's story, and says how to go on where there is a checkpoint. Does nothing
/// for a run that has no folder yet ("").
void tell_failure(const std::string& out, const std::string& message);

}  // namespace lockstep::cli
