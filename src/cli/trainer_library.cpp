#include "cli/trainer_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "base/digest.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "liblockstep_trainer.so";

fs::path library_path() {
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& folder : {program, program / LOCKSTEP_LIBRARY_FOLDER})
    if (fs::exists(folder / kFile)) return folder / kFile;
  throw Error(fmt::format("{}: not found beside {}, where it is built and installed", kFile,
                          program.string()));
}

train::TrainAsWorker load() {
  const fs::path path = library_path();
  void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  void* const function = library == nullptr ? nullptr : dlsym(library, train::kTrainAsWorker);
  if (function == nullptr)
    throw Error(fmt::format("{}: cannot be loaded: {}", path.string(), dlerror()));
  return reinterpret_cast<train::TrainAsWorker>(function);
}

}  // namespace

std::string trainer_fingerprint() {
  return digest_file(Digest::Kind::sha256, library_path()).substr(0, 16);
}

std::future<train::TrainAsWorker> load_trainer() {
  return std::async(std::launch::async, load);
}

}  // namespace lockstep::cli
