#include "recipe/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "recipe/keys.h"

namespace lockstep {
namespace {

// A line of a recipe: a key or an option.
struct TomlLine {
  std::string section;
  std::string key;
  std::string value;
  std::string meaning;
  Key::Role role = Key::Role::result;
};

std::string meaning_of(const Key& key) {
  if (key.use.choice == nullptr) return key.meaning;
  return fmt::format("{}: {}", fmt::join(key.use.users, ", "), key.meaning);
}

void add_options(std::vector<TomlLine>& lines, const std::vector<OptionTable>& tables,
                 std::string_view section) {
  for (const OptionTable& table : tables)
    if (table.section() == section)
      for (const auto& [key, value] : table.options->values())
        lines.push_back(
            {std::string(table.name), key, toml_text(toml_value_or_text(value)), "", {}});
}

// All keys; a section's options come after its keys.
std::vector<TomlLine> lines_of(const Recipe& recipe) {
  Recipe copy = recipe;
  const std::vector<OptionTable> tables = option_tables(copy);
  std::vector<TomlLine> lines;
  std::string_view section;
  for (const Key& key : keys(copy)) {
    if (key.section() != section) add_options(lines, tables, section);
    section = key.section();
    lines.push_back({std::string(section), std::string(key.last()), value_text(key),
                     meaning_of(key), key.role});
  }
  add_options(lines, tables, section);
  return lines;
}

const std::string* find(const Facts& facts, const std::string& name) {
  const auto found = std::find_if(facts.begin(), facts.end(),
                                  [&](const auto& fact) { return fact.first == name; });
  return found == facts.end() ? nullptr : &found->second;
}

}  // namespace

int64_t shards_of(const Recipe& recipe) {
  if (recipe.train.shards > 0) return recipe.train.shards;
  int64_t shards = 8;
  while (recipe.train.batch % shards != 0) --shards;
  return shards;
}

int64_t pieces_of(const Recipe& recipe) {
  return shards_of(recipe) * recipe.train.accumulate;
}

bool is_data_parallel(const Recipe& recipe) {
  return recipe.parallel.mode == "dp";
}

pipeline::PipelineShape pipeline_shape(const Recipe& recipe) {
  const Recipe::ParallelSection& parallel = recipe.parallel;
  const auto& row = pipeline::pipeline_schedules().at(parallel.schedule);
  const bool interleaves = parallel.stages > 1;
  return {.stages = static_cast<int>(parallel.stages),
          .parts_per_stage = parallel.parts_per_stage > 0
                                 ? static_cast<int>(parallel.parts_per_stage)
                             : interleaves ? row.usual_parts_per_stage
                                           : 1};
}

KeptCheckpoints kept_checkpoints(const Recipe& recipe) {
  const std::string& keep = recipe.checkpoint.keep;
  if (keep == "best") return {2, true};
  return {keep == "last" ? 1 : std::stoll(keep), false};
}

std::vector<std::string> without_effect(const Recipe& recipe) {
  Recipe copy = recipe, defaults;
  const std::vector<Key> ours = keys(copy);
  const std::vector<Key> by_default = keys(defaults);
  std::vector<std::string> found;
  for (size_t i = 0; i < ours.size(); ++i) {
    const auto& [choice, users] = ours[i].use;
    if (choice == nullptr || std::find(users.begin(), users.end(), *choice) != users.end())
      continue;
    if (value_text(ours[i]) != value_text(by_default[i]))
      found.push_back(fmt::format("{} has no effect with {}", ours[i].name, *choice));
  }
  if (recipe.data.augment.shift == 0 && recipe.data.augment.fill != defaults.data.augment.fill)
    found.emplace_back("data.fill has no effect without data.shift");
  if (recipe.model.weights.empty() && recipe.model.weights_partial)
    found.emplace_back("model.weights_partial has no effect without model.weights");
  return found;
}

std::string to_toml(const Recipe& recipe) {
  std::string toml;
  std::string section;
  for (const TomlLine& line : lines_of(recipe)) {
    if (line.section != section)
      toml += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", line.section);
    section = line.section;
    const std::string setting = fmt::format("{} = {}", line.key, line.value);
    toml +=
        line.meaning.empty() ? setting + "\n" : fmt::format("{:<36} # {}\n", setting, line.meaning);
  }
  return toml;
}

Facts result_values(const Recipe& recipe) {
  Facts values;
  for (const TomlLine& line : lines_of(recipe))
    if (line.role == Key::Role::result)
      values.emplace_back(fmt::format("{}.{}", line.section, line.key), line.value);
  return values;
}

std::vector<ChangedKey> changed_keys(const Facts& now, const Facts& before) {
  std::vector<ChangedKey> found;
  const Facts defaults = result_values({});
  for (const auto& [name, value] : now) {
    const std::string* was = find(before, name);
    if (was == nullptr) was = find(defaults, name);  // an earlier version had no such key
    if (was == nullptr || *was != value) found.push_back({name, value, was ? *was : "not set"});
  }
  for (const auto& [name, was] : before)
    if (find(now, name) == nullptr) found.push_back({name, "not set", was});
  return found;
}

std::vector<std::string> differences(const Facts& now, const Facts& before) {
  std::vector<std::string> texts;
  for (const ChangedKey& of : changed_keys(now, before))
    texts.push_back(fmt::format("{}: {}, was {}", of.key, of.now, of.before));
  return texts;
}

std::vector<std::string> differences(const Recipe& now, const Recipe& before) {
  return differences(result_values(now), result_values(before));
}

}  // namespace lockstep
