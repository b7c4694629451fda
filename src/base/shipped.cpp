#include "base/shipped.h"

#include <dlfcn.h>

#include <filesystem>

namespace lockstep {

namespace fs = std::filesystem;

// An install may be moved: what counts is where this library is now.
std::string shipped(const std::string& name) {
  Dl_info library = {};
  if (dladdr(reinterpret_cast<const void*>(&shipped), &library) == 0) return name;
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(library.dli_fname, error).parent_path();
  const fs::path installed = (folder / LOCKSTEP_SHARE / name).lexically_normal();
  return !error && fs::exists(installed, error) ? installed.string() : name;
}

}  // namespace lockstep
