#include "run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/atomic_file.h"
#include "lockstep/error.h"
#include "run/outcome.h"

namespace lockstep::run {

namespace fs = std::filesystem;

RunFolder::RunFolder(fs::path path) : path_(std::move(path)) {
  // The lock is on the folder itself, so that it leaves no file behind and ends with the process.
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) throw BadInput("--out {}: cannot open: {}", path_.string(), std::strerror(errno));
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    close(lock_);
    throw BadInput(
        "--out {}: another process is writing this run; wait for it, or choose another "
        "folder",
        path_.string());
  }
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) close(lock_);
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::move(other.path_)),
      lock_(std::exchange(other.lock_, -1)),
      goes_on_(other.goes_on_) {}

RunFolder RunFolder::create(fs::path path, const Recipe& recipe) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw BadInput("--out {}: cannot create: {}", path.string(), error.message());
  RunFolder folder(std::move(path));
  if (fs::exists(folder.recipe()) || fs::exists(folder.events()) ||
      fs::exists(folder.checkpoints()) || fs::exists(folder.weights()))
    throw BadInput(
        "--out {}: contains a run already; choose another folder, or continue it with --resume",
        folder.path().string());
  folder.keep(recipe);
  return folder;
}

void RunFolder::keep(const Recipe& recipe) const {
  write_file_atomically(this->recipe(), to_toml(recipe));
}

RunFolder RunFolder::open(fs::path path) {
  if (!fs::exists(path / "recipe.toml"))
    throw BadInput("--resume --out {}: contains no run (no recipe.toml)", path.string());
  RunFolder folder(std::move(path));
  folder.remove_leftovers();
  folder.goes_on_ = true;
  return folder;
}

// Temporary files of killed processes.
void RunFolder::remove_leftovers() const {
  for (const auto& entry : fs::directory_iterator(path_))
    if (entry.path().extension() == ".part") fs::remove(entry.path());
}

fs::path claim_run_folder(const fs::path& parent, const std::string& name) {
  std::error_code error;
  fs::create_directories(parent, error);
  for (int number = 1; !error; ++number) {
    fs::path path = parent / fmt::format("{}-{}", name, number);
    if (fs::create_directory(path, error)) return path;
  }
  throw BadInput("{}: cannot create: {}; choose a folder with --out", parent.string(),
                 error.message());
}

namespace {

bool has_checkpoint(const RunFolder& folder) {
  std::error_code missing;
  const fs::directory_iterator files(folder.checkpoints(), missing);
  return std::any_of(fs::begin(files), fs::end(files), [](const fs::directory_entry& entry) {
    return entry.path().extension() == ".safetensors";
  });
}

}  // namespace

Remains record_failure(const fs::path& out, const std::string& message) noexcept {
  try {
    const RunFolder folder = RunFolder::open(out);
    EventLog log(folder.events());
    if (outcome_of(out)) return Remains::nothing;
    log.write({{"event", "failure"}, {"message", message}});
    return has_checkpoint(folder) ? Remains::checkpoint : Remains::nothing;
  } catch (const std::exception&) {
    return Remains::nothing;  // the original failure has been printed and matters more
  }
}

}  // namespace lockstep::run
