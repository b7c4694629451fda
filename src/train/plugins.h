#pragma once

#include <string>

#include "lockstep/plugin.h"

namespace lockstep::train {

/// Registers the models, data sets and objectives of plugins that are linked into this program.
/// Throws BadInput.
void register_linked_plugins();

/// Loads a shared library and registers what its plugins add. Throws BadInput with the library's
/// name if it cannot be loaded, contains no plugin, was built for another version of Lockstep or
/// LibTorch, uses a name that is taken, or throws.
void load_plugin(const std::string& library);

}  // namespace lockstep::train
