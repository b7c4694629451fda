#include "job/trainer_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "base/digest.h"
#include "base/library_settings.h"
#include "base/plugin_queue.h"
#include "base/shipped.h"
#include "job/exit_guard.h"
#include "lockstep/error.h"

namespace lockstep::job {
namespace {

namespace fs = std::filesystem;

// With the version in its name, as programs that link it load it.
constexpr const char* kFile = "liblockstep.so." LOCKSTEP_SOVERSION;

fs::path library_path() {
  fs::path path = core_library().parent_path() / kFile;
  if (!fs::exists(path))
    throw Error(
        fmt::format("{}: not found in {}, beside liblockstep_core; build or install Lockstep again",
                    kFile, path.parent_path().string()));
  return path;
}

const train::TrainerLibrary* load() {
  const fs::path path = library_path();
  void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  void* const function = library == nullptr ? nullptr : dlsym(library, train::kTrainerLibrary);
  if (function == nullptr)
    throw Error(fmt::format("{}: cannot be loaded: {}", path.string(), dlerror()));
  return reinterpret_cast<const train::TrainerLibrary* (*)()>(function)();
}

}  // namespace

std::string trainer_fingerprint() {
  Digest both(Digest::Kind::sha256);
  for (const fs::path& path : {core_library(), library_path()})
    both.add(digest_file(Digest::Kind::sha256, path));
  return both.hex().substr(0, 16);
}

bool has_plugins(const std::vector<std::string>& libraries) {
  return !libraries.empty() || !waiting_plugins().empty();
}

void load_plugins(const std::vector<std::string>& libraries) {
  if (has_plugins(libraries)) load_plugins(*load_trainer().get(), libraries);
}

std::string load_plugins(const train::TrainerLibrary& trainer,
                         const std::vector<std::string>& libraries) {
  const ExitGuard guard;
  Digest code(Digest::Kind::sha256);
  if (!waiting_plugins().empty())
    code.add(digest_file(Digest::Kind::sha256, fs::canonical("/proc/self/exe")));
  trainer.register_linked_plugins();
  for (const std::string& library : libraries) {
    trainer.load_plugin(library);
    code.add(digest_file(Digest::Kind::sha256, library));
  }
  return code.hex();
}

std::future<const train::TrainerLibrary*> load_trainer() {
  set_up_libraries();
  return std::async(std::launch::async, load);
}

}  // namespace lockstep::job
