#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/shared_text.h"
#include "run/run_folder.h"

namespace lockstep::run {

/// Which folder a run is to have.
struct FolderOptions {
  std::optional<std::filesystem::path> out;
  std::string name;  ///< without `out`: "runs/NAME-1", with the first number that is free
  enum class Begin { anew, resume } begin = Begin::anew;
  /// Resumed by another recipe, which the folder then keeps.
  bool replace_recipe = false;
};

/// The folder of a run that is opened by whichever worker writes it, one after another, and known
/// to the process that started them: make it there, before workers are forked.
class SharedFolder {
 public:
  explicit SharedFolder(FolderOptions options) : options_(std::move(options)) {}

  /// In a worker: opens the folder, the one of the worker before if there was one. Throws BadInput.
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
