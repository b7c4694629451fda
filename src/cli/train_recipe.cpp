#include "cli/train_recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <string_view>
#include <utility>

#include "cli/settings.h"
#include "data/datasets.h"
#include "lockstep/error.h"
#include "optim/schedule.h"
#include "run/events.h"
#include "run/run_folder.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

void apply_flags(Recipe& recipe, const TrainFlags& flags) {
  for (const KeyFlag& flag : flags.keys) {
    if (!flag.value) continue;
    apply_setting(recipe, fmt::format("{} {}", flag.flag, *flag.value), flag.key, *flag.value);
    if (flag.flag == "--epochs")
      recipe.train.steps = 0;  // otherwise the recipe's steps would override it
  }
  apply_settings(recipe, flags.settings);
}

// So that a run can be resumed from any working directory.
void make_paths_absolute(Recipe& recipe) {
  std::string& data = recipe.data.name;
  for (const auto& row : data::datasets()) {
    const std::string prefix = row->name + ":";
    if (row->argument == "DIR" && data.starts_with(prefix) && data.size() > prefix.size())
      data.replace(prefix.size(), std::string::npos,
                   fs::absolute(data.substr(prefix.size())).lexically_normal().string());
  }
  if (!recipe.model.weights.empty())
    recipe.model.weights = fs::absolute(recipe.model.weights).lexically_normal().string();
}

Recipe recipe_from(const TrainFlags& flags, Recipe base) {
  Recipe recipe = flags.recipe ? read_recipe(*flags.recipe) : std::move(base);
  apply_flags(recipe, flags);
  make_paths_absolute(recipe);
  validate(recipe);
  return recipe;
}

}  // namespace

std::string run_name(const TrainFlags& flags, const Recipe& recipe) {
  if (flags.recipe) return fs::path(*flags.recipe).stem().string();
  const std::string data = fs::path(recipe.data.name).filename().string();
  return fmt::format("{}-{}", data, recipe.model.name);
}

namespace {

// The values that the run started with, from its events, since recipe.toml may have been edited.
Facts recorded_values(const fs::path& run) {
  const fs::path events = run / "events.jsonl";
  run::Json record;
  if (fs::exists(events))
    for (const run::Json& event : run::read_events(events))
      if (event.value("event", "") == "start") record = event.value("recipe", record);
  if (record.is_null()) return result_values(read_recipe(run / "recipe.toml"));
  Facts before;
  for (const auto& [key, value] : record.items()) before.emplace_back(key, value);
  return before;
}

// Whether the recipe is that of the run so far, but for more epochs or steps, which come after what
// has been trained already.
bool is_longer_run(const Recipe& asked, const Facts& before) {
  if (optim::schedules().at(asked.schedule.name).depends_on_length) return false;
  Recipe then = asked;
  for (const auto& [key, value] : before)
    if (key == "train.epochs" || key == "train.steps") set(then, key, value);
  const bool longer = asked.train.steps > 0
                          ? then.train.steps > 0 && asked.train.steps > then.train.steps
                          : then.train.steps == 0 && asked.train.epochs > then.train.epochs;
  return longer && differences(result_values(then), before).empty();
}

}  // namespace

RequestedRecipe requested_recipe(const TrainFlags& flags, FolderAccess record) {
  if (!flags.resume) return {recipe_from(flags, {})};
  if (!flags.out) throw BadInput("--resume: also give the run's folder, --out DIR");
  const fs::path out = *flags.out;
  if (record == FolderAccess::elsewhere && !fs::exists(out / "recipe.toml"))
    return {recipe_from(flags, {})};
  const Recipe used = read_recipe(record == FolderAccess::here ? run::RunFolder::open(out).recipe()
                                                               : out / "recipe.toml");
  const Recipe asked = recipe_from(flags, used);
  const Facts before = recorded_values(out);
  const bool longer = is_longer_run(asked, before);
  std::vector<std::string> different;
  if (!longer) different = differences(result_values(asked), before);
  if (asked.train.compress == "power_sgd")
    different.emplace_back(
        "train.compress = \"power_sgd\": checkpoints do not contain the error that workers have "
        "not "
        "sent yet");
  if (!different.empty() && !flags.force)
    throw BadInput(
        "--resume --out {}: the result would differ from that of the recipe this run started with: "
        "{}; resume without changes, start a new run, or use --force (then no single recipe "
        "reproduces the result)",
        out.string(), fmt::join(different, "; "));
  return {asked, std::move(different), longer};
}

}  // namespace lockstep::cli
