#pragma once

#include <filesystem>
#include <functional>

namespace lockstep::data {

/// A lock for the process that changes a folder; the system releases it when the process ends, in
/// whatever way.
class FolderLock {
 public:
  /// Waits for the lock, and calls `waiting` once if it has to wait. Throws BadInput.
  FolderLock(const std::filesystem::path& folder, const std::function<void()>& waiting);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace lockstep::data
