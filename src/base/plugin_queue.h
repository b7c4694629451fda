#pragma once

#include <vector>

namespace lockstep {

class Registry;
using Plugin = void (*)(Registry& registry);

/// Plugins that are loaded but not registered yet. They add themselves here while their library or
/// program is loaded, when exceptions are not allowed, and are called later.
std::vector<Plugin>& waiting_plugins();

}  // namespace lockstep
