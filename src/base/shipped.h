#pragma once

#include <string>

namespace lockstep {

/// Where a file that comes with Lockstep is: shipped("recipes/fashion-convnet.toml"). In an
/// installed Lockstep a path in its share/lockstep, elsewhere the name itself, which is a path in
/// the source's folder.
std::string shipped(const std::string& name);

}  // namespace lockstep
