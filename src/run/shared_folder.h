#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/shared_text.h"
#include "run/run_folder.h"

namespace lockstep::run {

/// Which folder to use for a run.
struct FolderOptions {
  std::optional<std::filesystem::path> out;
  std::string name;  ///< without `out`: "runs/NAME-1", with the first number that is free
  enum class Begin { anew, resume } begin = Begin::anew;
  /// Whether the folder's recipe is replaced (--resume --force with a changed recipe).
  bool replace_recipe = false;
};

/// The folder of a run, opened by the worker that is rank 0 (in an elastic job, by one after
/// another), whose path the launcher can read. Create it in the launcher, before workers are
/// forked.
class SharedFolder {
 public:
  explicit SharedFolder(FolderOptions options) : options_(std::move(options)) {}

  /// In a worker: opens the folder, the one of the previous rank 0 if there was one. Throws
  /// BadInput.
  RunFolder open(const Recipe& recipe);

  /// "" until a worker has opened it.
  std::string path() const { return opened_.get(); }

 private:
  RunFolder open_first(const std::filesystem::path& out, const Recipe& recipe) const;

  const FolderOptions options_;
  SharedText tried_;
  SharedText opened_;
};

}  // namespace lockstep::run
