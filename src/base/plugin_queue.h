#pragma once

#include <vector>

namespace lockstep {

class Registry;
using Plugin = void (*)(Registry& registry);

/// Plugins that were loaded and have not added what they bring yet. They put themselves here while
/// their library or program is loaded, when nothing may throw, and are called later.
std::vector<Plugin>& waiting_plugins();

}  // namespace lockstep
