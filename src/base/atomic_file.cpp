#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr size_t kLongestText = size_t{1} << 30;

// Follows links, and refuses devices and pipes, which a rename would replace.
std::filesystem::path target_of(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  const bool other = std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
  if (other) throw BadInput("{}: cannot write: not a regular file", path.string());
  return std::filesystem::is_symlink(path, error) ? std::filesystem::weakly_canonical(path) : path;
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path)
    : path_(target_of(path)), temporary_(fmt::format("{}.{}.part", path_.string(), getpid())) {
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
  // The rename is durable only once the folder is flushed to disk too.
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  if (const int opened = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); opened >= 0) {
    fsync(opened);
    close(opened);
  }
}

void AtomicFile::fail(const char* doing) const {
  const int cause = errno;
  throw BadInput("{}: cannot {}: {}{}; an earlier file there is unchanged", path_.string(), doing,
                 std::strerror(cause), cure_of_write_error(cause));
}

std::string cure_of_write_error(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space or choose another folder";
    case EROFS:
      return "; the file system is mounted read-only: mount it read-write or choose another folder";
    case EACCES:
    case EPERM:
      return "; this user may not write there: change the folder's owner or mode, or choose "
             "another folder";
    case ENOENT:
      return "; the folder does not exist: make it, or choose another one";
    default:
      return "";
  }
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::string read_file(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) throw BadInput("{}: is a folder", path.string());
  std::ifstream file(path, std::ios::binary);
  if (!file) throw BadInput("{}: cannot be read: {}", path.string(), std::strerror(errno));
  std::string text;
  std::array<char, 1 << 16> piece;
  while (file.read(piece.data(), piece.size()) || file.gcount() > 0) {
    text.append(piece.data(), static_cast<size_t>(file.gcount()));
    if (text.size() > kLongestText) throw BadInput("{}: is longer than 1 GiB", path.string());
  }
  return text;
}

}  // namespace lockstep
