#include "run/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "lockstep/error.h"

namespace lockstep::run {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFilePrefix = "step-";
constexpr std::string_view kFileEnding = ".safetensors";

// The step in a checkpoint's file name; nothing for other files.
std::optional<int64_t> step_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kFilePrefix) || !name.ends_with(kFileEnding)) return std::nullopt;
  const char* first = name.data() + kFilePrefix.size();
  const char* last = name.data() + name.size() - kFileEnding.size();
  int64_t step = 0;
  const auto [end, error] = std::from_chars(first, last, step);
  return error == std::errc() && end == last ? std::optional(step) : std::nullopt;
}

}  // namespace

fs::path Checkpoints::save(const Safetensors& state, int64_t step) const {
  std::error_code error;
  fs::create_directory(folder_, error);  // not the run's folder, which may have been removed
  if (error)
    throw BadInput("{}: cannot create: {}{}", folder_.string(), error.message(),
                   cure_of_write_error(error.value()));
  remove_leftovers();
  fs::path path = folder_ / fmt::format("{}{:08}{}", kFilePrefix, step, kFileEnding);
  write_safetensors(path, state.tensors, state.metadata);
  const auto files = newest_first();
  for (auto i = static_cast<size_t>(kept_); i < files.size(); ++i) fs::remove(files[i]);
  return path;
}

std::optional<Checkpoints::Found> Checkpoints::newest() const {
  std::vector<std::string> warnings;
  for (const fs::path& path : newest_first()) {
    try {
      return Found{path, read_safetensors(path), warnings};
    } catch (const BadInput& torn) {
      warnings.emplace_back(torn.what());
    }
  }
  if (!warnings.empty())
    throw BadInput("all checkpoints are damaged: {}; start a new run in another folder",
                   warnings.front());
  return std::nullopt;
}

void Checkpoints::remove_leftovers() const {
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kFilePrefix) && name.ends_with(".part")) fs::remove(entry.path());
  }
}

std::vector<fs::path> Checkpoints::newest_first() const {
  std::vector<fs::path> files;
  if (fs::exists(folder_))
    for (const auto& entry : fs::directory_iterator(folder_))
      if (step_of(entry.path())) files.push_back(entry.path());
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return *step_of(a) > *step_of(b); });
  return files;
}

CheckpointWriter::CheckpointWriter(Checkpoints checkpoints)
    : checkpoints_(std::move(checkpoints)), thread_([this] { work(); }) {}

CheckpointWriter::~CheckpointWriter() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Safetensors& CheckpointWriter::begin() {
  finish();
  throw_if_failed();
  return state_;
}

void CheckpointWriter::write(int64_t step) {
  {
    const MutexLock lock(mutex_);
    step_ = step;
    under_way_ = true;
  }
  changed_.notify_all();
}

std::vector<CheckpointWriter::Written> CheckpointWriter::take_written() {
  throw_if_failed();
  const MutexLock lock(mutex_);
  return std::exchange(written_, {});
}

void CheckpointWriter::finish() {
  const MutexLock lock(mutex_);
  while (under_way_) changed_.wait(mutex_);
}

void CheckpointWriter::throw_if_failed() {
  const MutexLock lock(mutex_);
  if (error_) std::rethrow_exception(error_);
}

void CheckpointWriter::work() {
  MutexLock lock(mutex_);
  while (true) {
    while (!under_way_ && !ends_) changed_.wait(mutex_);
    if (!under_way_) return;
    const int64_t step = step_;
    lock.unlock();
    const Stopwatch stopwatch;
    std::filesystem::path path;
    std::exception_ptr error;
    try {
      path = checkpoints_.save(state_, step);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error)
      error_ = error;
    else
      written_.push_back({step, path, stopwatch.seconds()});
    under_way_ = false;
    changed_.notify_all();
  }
}

}  // namespace lockstep::run
