#pragma once

#include <string>

#include "lockstep/plugin.h"

namespace lockstep::train {

/// Lets the plugins that are linked into this program add what they bring. Throws BadInput that
/// says what is wrong.
void register_linked_plugins();

/// Loads a shared library and lets its plugins add what they bring. Throws BadInput, with the
/// library's name, where it cannot be loaded, holds no plugin, was built against another version of
/// Lockstep or LibTorch, adds something under a name that is taken, or throws.
void load_plugin(const std::string& library);

}  // namespace lockstep::train
