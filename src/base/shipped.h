#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// Where a file that comes with Lockstep is: shipped("recipes/fashion-convnet.toml"). In an
/// installed Lockstep a path in its share/lockstep, elsewhere the name itself, which is a path in
/// the source's folder.
std::string shipped(const std::string& name);

/// liblockstep_core, or the program that it is linked into. Lockstep's other libraries are beside
/// it.
std::filesystem::path core_library();

}  // namespace lockstep
