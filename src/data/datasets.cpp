#include "data/datasets.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "base/element.h"
#include "data/checked_values.h"
#include "data/dataset.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

// "mnist", "npy:DIR".
std::vector<std::string> forms() {
  std::vector<std::string> all;
  for (const auto& row : datasets())
    all.push_back(row->argument.empty() ? row->name : row->name + ":" + row->argument);
  return all;
}

const DatasetRow& row_named(const std::string& name, const std::string& whole) {
  if (const DatasetRow* row = datasets().find(name)) return *row;
  if (fs::is_directory(whole))
    throw BadInput("data '{}': is a folder; use npy:{} for arrays or folder:{} for images", whole,
                   whole, whole);
  throw BadInput("data '{}': unknown{}; expected {}; to use a plugin's, give --load LIBRARY", whole,
                 did_you_mean(name, datasets().names()), fmt::join(forms(), ", "));
}

std::string describe(const Field& field) {
  return fmt::format("'{}' of type {} and shape {}{}", field.name, name_of(field.type),
                     field.shape.empty() ? "of one number" : to_string(field.shape),
                     field.categories.empty()
                         ? ""
                         : fmt::format(", one of {} categories", field.categories.size()));
}

// Both splits must have the same fields, since one model reads both.
void require_alike(const Fields& train, const Fields& other, const char* name) {
  if (train == other) return;
  if (train.inputs.size() != other.inputs.size() || train.targets.size() != other.targets.size())
    throw BadInput("data: the splits have different numbers of inputs or targets");
  for (size_t i = 0; i < train.count(); ++i)
    if (train[i] != other[i])
      throw BadInput("data: the training split has {}, the {} split {}: expected the same{}",
                     describe(train[i]), name, describe(other[i]),
                     train[i].shape == other[i].shape && train[i].type == other[i].type
                         ? " names and categories"
                         : "");
}

}  // namespace

Table<DatasetRow>& datasets() {
  static Table<DatasetRow> table("data set");
  return table;
}

Splits load_dataset(const std::string& name, const Options& options) {
  const size_t colon = name.find(':');
  const DatasetRow& row = row_named(name.substr(0, colon), name);
  const std::string argument = colon == std::string::npos ? "" : name.substr(colon + 1);
  if (colon != std::string::npos && argument.empty() && row.argument.empty())
    throw BadInput("data '{}': no argument after the colon; leave the colon out", name);
  const DatasetOptions given{.argument = argument, .options = options};
  Splits splits = row.make(given);
  if (!splits.train) throw BadInput("data '{}': its maker returned no training split", name);
  given.options.refuse_unknown(fmt::format("data set '{}'", row.name));
  check_dataset(*splits.train, "training");
  for (const auto& [split, kind] :
       {std::pair(splits.test, "test"), std::pair(splits.validation, "validation")}) {
    if (!split) continue;
    check_dataset(*split, kind);
    require_alike(splits.train->fields(), split->fields(), kind);
  }
  return with_checked_values(std::move(splits), ValueCheck::labels);
}

std::string with_absolute_path(const std::string& name) {
  for (const auto& row : datasets()) {
    const std::string prefix = row->name + ":";
    if (row->argument == "DIR" && name.starts_with(prefix) && name.size() > prefix.size())
      return prefix + fs::absolute(name.substr(prefix.size())).lexically_normal().string();
  }
  return name;
}

void refuse_argument(const DatasetOptions& options, const std::string& name) {
  if (!options.argument.empty())
    throw BadInput("data '{}:{}': {} takes no argument", name, options.argument, name);
}

fs::path folder_argument(const DatasetOptions& options, const std::string& name) {
  fs::path folder = options.argument;
  if (folder.empty()) throw BadInput("data '{}:': expected a folder, as in {}:DIR", name, name);
  if (!fs::exists(folder))
    throw BadInput("data '{}:{}': no such folder: {}", name, options.argument,
                   fs::absolute(folder).string());
  if (!fs::is_directory(folder))
    throw BadInput("data '{}:{}': {} is a file; give the folder it is in", name, options.argument,
                   folder.string());
  return folder;
}

}  // namespace lockstep::data
