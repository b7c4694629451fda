#pragma once

#include <filesystem>
#include <functional>

namespace lockstep::data {

/// Held by the one process that changes a folder; the system gives it back when that process ends,
/// however it ends.
class FolderLock {
 public:
  /// Waits for its turn, calling `waiting` once if it has to. Throws BadInput.
  FolderLock(const std::filesystem::path& folder, const std::function<void()>& waiting);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace lockstep::data
