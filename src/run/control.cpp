#include "run/control.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "lockstep/error.h"

namespace lockstep::run {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path control_file(const fs::path& run) {
  return run / "control.json";
}

}  // namespace

void write_control(const fs::path& run, const ControlAddress& address) {
  const std::string text =
      json{{"host", address.host}, {"port", address.port}, {"key", address.key}}.dump();
  remove_control(run);
  const int file = open(control_file(run).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool written =
      file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int cause = errno;
  if (file >= 0) close(file);
  if (!written)
    throw BadInput("{}: cannot be written: {}{}", control_file(run).string(), std::strerror(cause),
                   cure_of_write_error(cause));
}

void remove_control(const fs::path& run) {
  std::error_code ignored;
  fs::remove(control_file(run), ignored);
}

ControlAddress read_control(const fs::path& run) {
  if (!fs::is_directory(run)) throw BadInput("{}: no such folder; give a run's", run.string());
  std::ifstream file(control_file(run));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  try {
    const json control = json::parse(text);
    return {.host = control.at("host"), .port = control.at("port"), .key = control.at("key")};
  } catch (const json::exception&) {
    throw BadInput(
        "{}: no elastic run is active in this folder; start one with lockstep train --elastic",
        run.string());
  }
}

}  // namespace lockstep::run
