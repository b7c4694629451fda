#include "run/shared_folder.h"

#include "run/events.h"

namespace lockstep::run {

namespace fs = std::filesystem;

RunFolder SharedFolder::open(const Recipe& recipe) {
  if (const std::string opened = opened_.get(); !opened.empty()) {
    if (!fs::exists(opened)) throw RunRemoved(opened);
    return RunFolder::open(opened);
  }
  // A worker may have died after it created the folder and before it wrote an event.
  const fs::path made = tried_.get();
  if (!made.empty() && fs::exists(made / "recipe.toml") && !fs::exists(made / "events.jsonl")) {
    opened_.set(made.string());
    return RunFolder::open(made);
  }
  const fs::path out = options_.out ? *options_.out : claim_run_folder("runs", options_.name);
  tried_.set(out.string());
  RunFolder folder = open_first(out, recipe);
  opened_.set(folder.path().string());
  return folder;
}

RunFolder SharedFolder::open_first(const fs::path& out, const Recipe& recipe) const {
  if (options_.begin == FolderOptions::Begin::anew) return RunFolder::create(out, recipe);
  RunFolder folder = RunFolder::open(out);
  if (options_.replace_recipe) folder.keep(recipe);
  return folder;
}

}  // namespace lockstep::run
