#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "lockstep/error.h"

namespace lockstep {

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)), temporary_(fmt::format("{}.{}.part", path_.string(), getpid())) {
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("create");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) fail("flush");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename");
  close(std::exchange(descriptor_, -1));
  // The rename itself survives a power cut only once the folder is on disk too.
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  if (const int opened = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); opened >= 0) {
    fsync(opened);
    close(opened);
  }
}

void AtomicFile::fail(const char* doing) const {
  const int cause = errno;
  const char* cure =
      cause == ENOSPC || cause == EDQUOT ? "; free some space or choose another folder" : "";
  throw BadInput("{}: cannot {}: {}{}; what was there before is untouched", path_.string(), doing,
                 std::strerror(cause), cure);
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw BadInput("{}: cannot be read: {}", path.string(), std::strerror(errno));
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

}  // namespace lockstep
