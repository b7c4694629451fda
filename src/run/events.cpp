#include "run/events.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "base/atomic_file.h"
#include "lockstep/error.h"

namespace lockstep::run {
namespace {

double now() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::round(std::chrono::duration<double, std::milli>(since_epoch).count()) / 1000;
}

// Removes an incomplete last line, which a crash may leave, so that readers never see one.
void cut_torn_line(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) return;
  std::ifstream file(path, std::ios::binary);
  const auto whole = static_cast<std::streamoff>(std::filesystem::file_size(path));
  auto length = whole;
  for (; length > 0; --length) {
    file.seekg(length - 1);
    if (file.get() == '\n') break;
  }
  if (length < whole) std::filesystem::resize_file(path, static_cast<uintmax_t>(length));
}

}  // namespace

RunRemoved::RunRemoved(const std::filesystem::path& folder)
    : Error(fmt::format(
          "{}: the run's folder, or events.jsonl in it, was removed while the run was writing it: "
          "what was removed is lost, and nothing more is written; start the run again, or "
          "continue with --resume if checkpoints are left",
          folder.string())) {}

EventLog::EventLog(std::filesystem::path path) : path_(std::move(path)) {
  cut_torn_line(path_);
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0)
    throw BadInput("{}: cannot be written: {}{}", path_.string(), std::strerror(errno),
                   cure_of_write_error(errno));
}

EventLog::~EventLog() {
  if (descriptor_ >= 0) close(descriptor_);
}

void EventLog::listen(std::function<void(const Json&)> listener) {
  listeners_.push_back(std::move(listener));
}

void EventLog::write(Json event) {
  event["time"] = now();
  const std::string line = event.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  for (std::string_view rest = line; descriptor_ >= 0 && !rest.empty();) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      throw BadInput("{}: cannot be written: {}{}; then continue with --resume", path_.string(),
                     std::strerror(errno), cure_of_write_error(errno));
    rest.remove_prefix(static_cast<size_t>(written));
  }
  check_present();
  for (const auto& listener : listeners_) listener(event);
}

// A file that was removed can still be written to, and nobody will ever read it.
void EventLog::check_present() const {
  struct stat file = {};
  if (descriptor_ < 0 || fstat(descriptor_, &file) != 0 || file.st_nlink > 0) return;
  struct stat there = {};  // some file systems count no links
  if (stat(path_.c_str(), &there) == 0 && there.st_ino == file.st_ino) return;
  throw RunRemoved(path_.parent_path());
}

std::vector<Json> read_events(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  std::vector<Json> events;
  size_t begin = 0;
  for (size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    events.push_back(Json::parse(text.substr(begin, end - begin), nullptr, false));
    if (events.back().is_discarded())
      throw BadInput("{}: line {} is not JSON", path.string(), events.size());
  }
  return events;
}

}  // namespace lockstep::run
