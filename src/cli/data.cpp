#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "base/element.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/settings.h"
#include "data/dataset.h"
#include "data/datasets.h"
#include "data/fetch.h"
#include "job/trainer_library.h"
#include "recipe/recipe.h"

namespace lockstep::cli {
namespace {

int list_datasets(bool json) {
  for (const data::CatalogState& known : data::list_catalog()) {
    if (json) {
      const nlohmann::ordered_json line = {{"name", known.name},
                                           {"present", known.present},
                                           {"folder", known.folder.string()},
                                           {"about", known.about},
                                           {"how_to_get", known.how_to_get}};
      fmt::print("{}\n",
                 line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    } else {
      fmt::print("{:<14} {}\n{:<14} {}\n", known.name, known.about, "",
                 known.present ? "in " + known.folder.string()
                               : "not found; get it with: " + known.how_to_get);
    }
  }
  for (const auto& row : data::datasets())
    if (!json && !row->argument.empty())
      fmt::print("{:<14} {}\n", row->name + ":" + row->argument, row->about);
  return 0;
}

// Redraws one line on a terminal; when piped, prints a line for each new activity.
class FetchLine {
 public:
  void show(const data::FetchProgress& progress) {
    const bool changed = progress.doing != doing_;
    if (!live_ && !changed) return;
    if (live_ && !changed && progress.done < progress.total && since_.seconds() < 0.1) return;
    doing_ = progress.doing;
    since_.restart();
    const std::string line =
        progress.total > 0 ? fmt::format("{}: {} of {}", progress.doing,
                                         format_bytes(progress.done), format_bytes(progress.total))
                           : progress.doing;
    fmt::print(stderr, "{}{}{}", live_ ? "\r\033[K" : "", line, live_ ? "" : "\n");
    std::fflush(stderr);
  }

  ~FetchLine() {
    if (live_ && !doing_.empty()) fmt::print(stderr, "\n");
  }

 private:
  bool live_ = isatty(STDERR_FILENO) != 0;
  std::string doing_;
  Stopwatch since_;
};

int get_dataset(const std::string& name, const std::string& from) {
  std::filesystem::path folder;
  {
    FetchLine line;
    folder = data::fetch({name, from, [&](const auto& progress) { line.show(progress); }});
  }
  fmt::print("{} is in {}\n", name, folder.string());
  return 0;
}

// Classes without samples cannot be learned, or cannot be evaluated.
void print_empty_classes(const Dataset& dataset, const char* split) {
  const Fields& fields = dataset.fields();
  const data::SampleRoom room(fields);
  for (size_t i = fields.inputs.size(); i < fields.count(); ++i) {
    const std::vector<std::string>& names = fields[i].categories;
    if (names.empty() || fields[i].type != Type::i64 || !fields[i].shape.empty()) continue;
    std::vector<int64_t> counts(names.size());
    for (int64_t sample = 0; sample < dataset.size(); ++sample) {
      data::write_sample(dataset, sample, 0, room.memory());
      ++counts.at(static_cast<size_t>(Sample(fields, room.memory(), 0).as<int64_t>(i)[0]));
    }
    for (size_t label = 0; label < counts.size(); ++label)
      if (counts[label] == 0)
        fmt::print("warning: class '{}' has no samples in the {} split\n", names[label], split);
  }
}

// "image u8 1 x 28 x 28", "label: 10 classes".
std::string describe(const Field& field) {
  if (!field.categories.empty())
    return fmt::format("{}: {} classes", field.name, field.categories.size());
  const std::string type = fmt::format("{} {}", field.name, name_of(field.type));
  return field.shape.empty() ? type : fmt::format("{} {}", type, data::to_string(field.shape));
}

int check_dataset(const std::string& name, const std::vector<std::string>& settings,
                  const std::vector<std::string>& plugins) {
  job::load_plugins(plugins);
  Recipe recipe;
  recipe.data.name = name;
  apply_settings(recipe, settings);
  const Splits splits = data::check(recipe.data);
  const Fields& fields = splits.train->fields();
  std::vector<std::string> parts;
  for (size_t i = 0; i < fields.count(); ++i) parts.push_back(describe(fields[i]));
  fmt::print("{}: {} + {}{} samples ({}); all are valid\n", name,
             format_count(splits.train->size()), format_count(splits.test->size()),
             splits.validation ? " + " + format_count(splits.validation->size()) : "",
             fmt::join(parts, "; "));
  print_empty_classes(*splits.train, "train");
  if (splits.validation) print_empty_classes(*splits.validation, "validation");
  print_empty_classes(*splits.test, "test");
  return 0;
}

class DataListCommand final : public Command {
 public:
  explicit DataListCommand(CLI::App& parent)
      : Command(parent, "list", "Show every data set and where it is stored") {
    app().add_flag("--json", json_, "print one JSON object per line");
    app().footer("Example:\n  lockstep data list --json");
  }
  int run() override { return list_datasets(json_); }

 private:
  bool json_ = false;
};

class DataGetCommand final : public Command {
 public:
  explicit DataGetCommand(CLI::App& parent)
      : Command(parent, "get", "Download a data set, check it and convert it") {
    app().add_option("NAME", name_, "mnist or cifar10")->required()->type_name("");
    app()
        .add_option("--from", from_,
                    "use these files instead of a download: a folder or an archive")
        ->type_name("PATH");
    app().footer(
        "Run the command again to continue an interrupted download.\n"
        "Files go to $LOCKSTEP_DATA, else $XDG_DATA_HOME/lockstep, else "
        "~/.local/share/lockstep.\n"
        "Examples:\n"
        "  lockstep data get cifar10\n"
        "  lockstep data get cifar10 --from cifar-10-binary.tar.gz");
  }
  int run() override { return get_dataset(name_, from_); }

 private:
  std::string name_;
  std::string from_;
};

class DataCheckCommand final : public Command {
 public:
  explicit DataCheckCommand(CLI::App& parent)
      : Command(parent, "check", "Read every sample of a data set and report the first error") {
    app()
        .add_option("NAME", name_, "a data set of `lockstep list datasets`")
        ->required()
        ->type_name("");
    app()
        .add_option("--set", settings_, "set a [data] key, such as data.options.image_size=32")
        ->allow_extra_args(false)
        ->type_name("KEY=VALUE");
    add_load_flag(app(), plugins_);
    app().footer(
        "Examples:\n"
        "  lockstep data check cifar10\n"
        "  lockstep data check npy:my-data\n"
        "  lockstep data check mine --load libmine.so");
  }
  int run() override { return check_dataset(name_, settings_, plugins_); }

 private:
  std::string name_;
  std::vector<std::string> plugins_;
  std::vector<std::string> settings_;
};

}  // namespace

std::vector<std::unique_ptr<Command>> add_data(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("data", "List, download and check data sets");
  app->allow_extras();
  app->footer(
      "Examples:\n"
      "  lockstep data list\n"
      "  lockstep data get cifar10\n"
      "  lockstep data get mnist --from ~/Downloads/mnist\n"
      "  lockstep data check mnist");
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<DataListCommand>(*app));
  commands.push_back(std::make_unique<DataGetCommand>(*app));
  commands.push_back(std::make_unique<DataCheckCommand>(*app));
  return commands;
}

}  // namespace lockstep::cli
