#include "cli/train_recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "cli/settings.h"
#include "data/datasets.h"
#include "lockstep/error.h"
#include "optim/schedule.h"
#include "run/events.h"
#include "run/outcome.h"
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
  recipe.data.name = data::with_absolute_path(recipe.data.name);
  std::string& weights = recipe.model.weights;
  if (weights.empty()) return;
  if (fs::is_directory(weights)) weights = (fs::path(weights) / "model.safetensors").string();
  weights = fs::absolute(weights).lexically_normal().string();
}

// A recipe may have a split or a schedule for those who ask for stages; one that is asked for is
// meant.
void require_stages(const Recipe& recipe, const TrainFlags& flags) {
  if (recipe.parallel.stages > 1) return;
  for (const KeyFlag& flag : flags.keys)
    if ((flag.flag == "--split" || flag.flag == "--schedule") && flag.value && !flag.value->empty())
      throw BadInput("{} {}: the model has one stage; give their number, too: --stages {}",
                     flag.flag, *flag.value,
                     flag.flag == "--split" ? std::ranges::count(*flag.value, ',') + 2 : 2);
}

Recipe changed_by(const TrainFlags& flags, Recipe recipe) {
  apply_flags(recipe, flags);
  if (flags.auto_batch)  // any that can be divided, until it is known
    recipe.train.batch =
        (recipe.train.shards > 0 ? recipe.train.shards : 8) * recipe.train.accumulate;
  make_paths_absolute(recipe);
  validate(recipe);
  require_stages(recipe, flags);
  return recipe;
}

Recipe recipe_of(const TrainFlags& flags, const Recipe& defaults) {
  return changed_by(flags, flags.recipe ? read_recipe(*flags.recipe, defaults) : defaults);
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

// How much longer a run becomes.
struct Extension {
  bool more_steps = false;
  bool more_patience = false;
  /// Whether the run ends like one that had all of this from the start: the rest of the recipe is
  /// the same, and so are the steps so far.
  bool is_as_from_the_start = false;

  bool is_longer() const { return more_steps || more_patience; }
};

Extension extension(const Recipe& asked, const Facts& before) {
  Recipe then = asked;
  for (const auto& [key, value] : before)
    if (key == "train.epochs" || key == "train.steps" || key == "train.patience")
      set(then, key, value);
  const auto& now = asked.train;
  const auto& was = then.train;
  Extension found;
  found.more_steps = now.steps > 0 ? was.steps > 0 && now.steps > was.steps
                                   : was.steps == 0 && now.epochs > was.epochs;
  found.more_patience = was.patience > 0 && (now.patience == 0 || now.patience > was.patience);
  const bool same_length = now.steps == was.steps && now.epochs == was.epochs;
  const bool same_rates =
      same_length || !optim::schedules().at(asked.schedule.name).depends_on_length;
  found.is_as_from_the_start = (same_length || found.more_steps) && same_rates &&
                               (now.patience == was.patience || found.more_patience) &&
                               differences(result_values(then), before).empty();
  return found;
}

// Refuses what would leave a finished run as it is.
void check_finished(const Recipe& asked, const Extension& more, bool differs, const fs::path& out) {
  const auto outcome = run::outcome_of(out);
  if (!outcome || outcome->kind != run::Outcome::Kind::ended) return;
  const bool ended_early = outcome->event.value("ended_early", false);
  if (ended_early && more.more_steps && !more.more_patience)
    throw BadInput(
        "--resume --out {}: the run ended early, since train.patience = {} epochs were not better "
        "than the best one; more epochs change nothing, but more patience does: --set "
        "train.patience={}, or 0",
        out.string(), asked.train.patience, 2 * asked.train.patience);
  if (differs && !more.is_longer())
    throw BadInput(
        "--resume --out {}: the run is finished, so that other settings change nothing; give more "
        "epochs (--epochs), or start a new run from its weights (--weights {})",
        out.string(), (out / "model.safetensors").string());
}

}  // namespace

bool is_given(const TrainFlags& flags, const std::string& key) {
  return std::ranges::any_of(
             flags.keys,
             [&](const KeyFlag& flag) { return flag.key == key && flag.value.has_value(); }) ||
         std::ranges::any_of(flags.settings, [&](const std::string& setting) {
           return setting.starts_with(key + "=");
         });
}

RequestedRecipe requested_recipe(const TrainFlags& flags, FolderAccess record) {
  return requested_recipe(flags, record, Recipe());
}

RequestedRecipe requested_recipe(const TrainFlags& flags, FolderAccess record,
                                 const Recipe& defaults) {
  if (!flags.resume) return {recipe_of(flags, defaults)};
  if (!flags.out) throw BadInput("--resume: also give the run's folder, --out DIR");
  const fs::path out = *flags.out;
  if (record == FolderAccess::elsewhere && !fs::exists(out / "recipe.toml"))
    return {recipe_of(flags, defaults)};
  const Recipe used = read_recipe(record == FolderAccess::here ? run::RunFolder::open(out).recipe()
                                                               : out / "recipe.toml");
  const Recipe asked = changed_by(flags, flags.recipe ? read_recipe(*flags.recipe) : used);
  const Facts before = recorded_values(out);
  const Extension more = extension(asked, before);
  std::vector<std::string> different;
  if (!more.is_as_from_the_start) different = differences(result_values(asked), before);
  if (asked.train.compress == "power_sgd")
    different.emplace_back(
        "train.compress = \"power_sgd\": checkpoints do not contain the error that workers have "
        "not sent yet");
  if (!different.empty() && !flags.force)
    throw BadInput(
        "--resume --out {}: the result would differ from that of the recipe this run started with: "
        "{}{}; {}start a new run, or use --force (then no single recipe reproduces the result)",
        out.string(), fmt::join(different, "; "),
        more.more_steps && optim::schedules().at(asked.schedule.name).depends_on_length
            ? fmt::format(" (the learning rates of schedule.name = \"{}\" depend on the number of "
                          "steps)",
                          asked.schedule.name)
            : "",
        asked.train.compress == "power_sgd" ? "" : "resume without changes, ");
  check_finished(asked, more, !different.empty(), out);
  return {asked, std::move(different), more.is_longer()};
}

}  // namespace lockstep::cli
