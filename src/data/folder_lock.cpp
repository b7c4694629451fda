#include "data/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lockstep/error.h"

namespace lockstep::data {

FolderLock::FolderLock(const std::filesystem::path& folder, const std::function<void()>& waiting) {
  const std::filesystem::path path = folder / ".lock";
  // The file stays: removing it would let two processes lock two files of the same name.
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0)
    throw BadInput("{}: cannot create: {}; set LOCKSTEP_DATA to a folder you can write",
                   path.string(), std::strerror(errno));
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  waiting();
  while (flock(descriptor_, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    const int cause = errno;
    close(descriptor_);
    throw BadInput("{}: cannot be locked: {}", path.string(), std::strerror(cause));
  }
}

FolderLock::~FolderLock() {
  close(descriptor_);
}

}  // namespace lockstep::data
