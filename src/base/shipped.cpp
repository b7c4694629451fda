#include "base/shipped.h"

#include <dlfcn.h>

#include <system_error>

namespace lockstep {

namespace fs = std::filesystem;

// An install may be moved: what counts is where this library is now.
std::string shipped(const std::string& name) {
  const fs::path core = core_library();
  const fs::path installed = (core.parent_path() / LOCKSTEP_SHARE / name).lexically_normal();
  std::error_code error;
  return !core.empty() && fs::exists(installed, error) ? installed.string() : name;
}

fs::path core_library() {
  Dl_info library = {};
  if (dladdr(reinterpret_cast<const void*>(&core_library), &library) == 0) return {};
  std::error_code error;
  const fs::path path = fs::weakly_canonical(library.dli_fname, error);
  return error ? fs::path() : path;
}

}  // namespace lockstep
