#include "base/plugin_queue.h"

namespace lockstep {

std::vector<Plugin>& waiting_plugins() {
  static std::vector<Plugin> plugins;
  return plugins;
}

bool add_plugin(Plugin plugin) {
  waiting_plugins().push_back(plugin);
  return true;
}

}  // namespace lockstep
