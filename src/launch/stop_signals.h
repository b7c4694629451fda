#pragma once

#include <atomic>

namespace lockstep::launch {

/// From now on the first SIGINT (Ctrl-C) or SIGTERM asks this process to stop, and a second one
/// kills it.
void stop_on_signals();

/// Set once this process has been asked to stop.
const std::atomic<bool>& stop_asked();
/// A descriptor that becomes readable at that moment.
int stop_descriptor();
/// The exit code of a process that stops because of the signal: 130 or 143; 0 if none arrived.
int stop_exit_code();

}  // namespace lockstep::launch
