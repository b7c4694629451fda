#include "run/run_folder.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/atomic_file.h"
#include "base/deadline.h"
#include "base/host.h"
#include "lockstep/error.h"
#include "run/outcome.h"

namespace lockstep::run {

namespace fs = std::filesystem;

namespace {

constexpr int kLockPauseMilliseconds = 20;

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Whether the process has the folder open, as far as this user may know.
bool has_open(const std::string& pid, const struct stat& folder) {
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", pid), gone)) {
    struct stat file = {};
    if (stat(entry.path().c_str(), &file) == 0 && is_same_file(file, folder)) return true;
  }
  return false;
}

std::string command_of(const std::string& pid) {
  constexpr size_t kLongest = 200;
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid), std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(file), {}};
  while (words.ends_with('\0')) words.pop_back();
  std::replace(words.begin(), words.end(), '\0', ' ');
  return words.size() > kLongest ? words.substr(0, kLongest) + " ..." : words;
}

// Who holds the lock of a folder: "pid 4711 on node1 (lockstep train --out runs/mine)". A line of
// /proc/locks is "1: FLOCK ADVISORY WRITE 4711 08:01:131 0 EOF".
std::string holder_of(int folder) {
  struct stat wanted = {};
  fstat(folder, &wanted);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, mode, access, pid, place;
    words >> number >> kind >> mode >> access >> pid >> place;
    if (kind == "FLOCK" && place.ends_with(fmt::format(":{}", wanted.st_ino)) &&
        has_open(pid, wanted))
      return fmt::format("pid {} on {} ({})", pid, host_name(), command_of(pid));
  }
  return fmt::format("it is not visible on {}, and may run on another host or in a container",
                     host_name());
}

bool has_checkpoint(const RunFolder& folder) {
  std::error_code missing;
  const fs::directory_iterator files(folder.checkpoints(), missing);
  return std::any_of(fs::begin(files), fs::end(files), [](const fs::directory_entry& entry) {
    return entry.path().extension() == ".safetensors";
  });
}

// A run that failed before its first checkpoint would fail again: its recipe cannot be changed.
[[noreturn]] void refuse_used(const RunFolder& folder) {
  if (!fs::exists(folder.recipe()) || has_checkpoint(folder) || fs::exists(folder.weights()) ||
      fs::exists(folder.best_weights()))
    throw BadInput(
        "--out {}: contains a run already; choose another folder, or continue it with --resume",
        folder.path().string());
  throw BadInput(
      "--out {}: contains a run that ended before its first checkpoint; delete the folder, or "
      "choose another one with --out (--resume would start the same recipe again, at step 0)",
      folder.path().string());
}

}  // namespace

RunFolder::RunFolder(fs::path path, double lock_seconds) : path_(std::move(path)) {
  // The lock is on the folder itself, so that it leaves no file behind and ends with the process.
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) throw BadInput("--out {}: cannot open: {}", path_.string(), std::strerror(errno));
  const Deadline deadline = Deadline::in(lock_seconds);
  while (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    if (!deadline.passed()) {
      poll(nullptr, 0, kLockPauseMilliseconds);  // no system call waits for a lock until a time
      continue;
    }
    const std::string holder = holder_of(lock_);
    close(std::exchange(lock_, -1));
    throw BadInput(
        "--out {}: another process is writing this run: {}; wait for it, stop it, or choose "
        "another folder",
        path_.string(), holder);
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
  RunFolder folder(std::move(path), kLockSeconds);
  if (fs::exists(folder.recipe()) || fs::exists(folder.events()) ||
      fs::exists(folder.checkpoints()) || fs::exists(folder.weights()) ||
      fs::exists(folder.best_weights()))
    refuse_used(folder);
  folder.keep(recipe);
  return folder;
}

void RunFolder::keep(const Recipe& recipe) const {
  write_file_atomically(this->recipe(), to_toml(recipe));
}

RunFolder RunFolder::open(fs::path path, double lock_seconds) {
  if (!fs::exists(path / "recipe.toml"))
    throw BadInput("--resume --out {}: contains no run (no recipe.toml)", path.string());
  RunFolder folder(std::move(path), lock_seconds);
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

Remains record_failure(const fs::path& out, const std::string& message) noexcept {
  try {
    const RunFolder folder = RunFolder::open(out, 0);
    if (outcome_of(out)) return Remains::nothing;
    const Remains remains = has_checkpoint(folder) ? Remains::checkpoint : Remains::no_checkpoint;
    const bool removed = remains == Remains::checkpoint && !fs::exists(folder.events());
    if (removed) return remains;  // what was removed is not made again
    try {
      EventLog log(folder.events());
      log.write({{"event", "failure"}, {"message", message}});
    } catch (const BadInput&) {
      // A full disk may be what failed: the run can be resumed all the same.
    }
    return remains;
  } catch (const std::exception&) {
    return Remains::nothing;  // the original failure has been printed and matters more
  }
}

}  // namespace lockstep::run
