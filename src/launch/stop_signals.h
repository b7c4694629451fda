#pragma once

#include <atomic>

namespace lockstep::launch {

/// From here on the first Ctrl-C (or SIGTERM) asks this process to stop, and a second one kills it.
void stop_on_signals();

/// Set once it is asked to stop.
const std::atomic<bool>& stop_asked();
/// A descriptor that is readable once it is asked to stop.
int stop_descriptor();
/// The exit code of who stops because of the signal that came: 130, 143; 0 where none came.
int stop_exit_code();

}  // namespace lockstep::launch
