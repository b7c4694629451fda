#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/settings.h"
#include "data/fetch.h"
#include "data/source.h"
#include "recipe/recipe.h"

namespace lockstep::cli {
namespace {

int list_sources(bool json) {
  for (const data::SourceState& source : data::list()) {
    if (json) {
      const nlohmann::ordered_json line = {{"name", source.name},
                                           {"present", source.present},
                                           {"folder", source.folder.string()},
                                           {"about", source.about},
                                           {"how_to_get", source.how_to_get}};
      fmt::print("{}\n",
                 line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    } else {
      fmt::print("{:<14} {}\n{:<14} {}\n", source.name, source.about, "",
                 source.present ? "here: " + source.folder.string()
                                : "not here; get it with: " + source.how_to_get);
    }
  }
  if (!json)
    fmt::print(
        "{:<14} your own arrays: x.npy and y.npy (x_test.npy, y_test.npy)\n"
        "{:<14} your own images: DIR/CLASS/*.png|jpg, or DIR/train and DIR/test\n",
        "npy:DIR", "folder:DIR");
  return 0;
}

// Redraws one line on a terminal; when piped, a line whenever what is done changes.
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

int get_source(const std::string& name, const std::string& from) {
  std::filesystem::path folder;
  {
    FetchLine line;
    folder = data::fetch({name, from, [&](const auto& progress) { line.show(progress); }});
  }
  fmt::print("{} is in {}\n", name, folder.string());
  return 0;
}

// Classes that cannot be learned, or cannot be judged.
void print_empty_classes(const data::Dataset& dataset, const char* split) {
  std::vector<int64_t> counts(static_cast<size_t>(dataset.classes()));
  for (const int32_t label : dataset.labels) ++counts[static_cast<size_t>(label)];
  for (size_t label = 0; label < counts.size(); ++label)
    if (counts[label] == 0)
      fmt::print("warning: class '{}' has no samples to {} with\n", dataset.class_names[label],
                 split);
}

int check_source(const std::string& name, const std::vector<std::string>& settings) {
  Recipe recipe;
  recipe.data.source.name = name;
  apply_settings(recipe, settings);
  const data::Splits splits = data::check(recipe.data.source);
  fmt::print("{}: {} + {} samples of {}, {} classes; every file is sound\n", name,
             format_count(splits.train.size()), format_count(splits.test.size()),
             data::to_string(splits.train.shape), splits.train.classes());
  print_empty_classes(splits.train, "train");
  print_empty_classes(splits.test, "test");
  return 0;
}

}  // namespace

std::vector<Command> add_data(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("data", "List, get and check data sets");
  app->allow_extras();
  app->footer(
      "Examples:\n"
      "  lockstep data list\n"
      "  lockstep data get cifar10\n"
      "  lockstep data get mnist --from ~/Downloads/mnist\n"
      "  lockstep data check mnist");

  auto json = std::make_shared<bool>(false);
  CLI::App* list = app->add_subcommand("list", "Show every data set and whether it is here");
  list->add_flag("--json", *json, "one JSON object a line");
  list->footer("Example:\n  lockstep data list --json");

  auto name = std::make_shared<std::string>();
  auto from = std::make_shared<std::string>();
  CLI::App* get = app->add_subcommand("get", "Fetch a data set, check it and convert it");
  get->add_option("NAME", *name, "mnist or cifar10")->required()->type_name("");
  get->add_option("--from", *from, "files you have already: a folder or an archive")
      ->type_name("PATH");
  get->footer(
      "A broken download goes on where it stopped when the command is given again.\n"
      "Files go to $LOCKSTEP_DATA, else $XDG_DATA_HOME/lockstep, else "
      "~/.local/share/lockstep.\n"
      "Examples:\n"
      "  lockstep data get cifar10\n"
      "  lockstep data get cifar10 --from cifar-10-binary.tar.gz");

  auto checked = std::make_shared<std::string>();
  auto settings = std::make_shared<std::vector<std::string>>();
  CLI::App* check =
      app->add_subcommand("check", "Read a whole data set and say what is wrong with it");
  check->add_option("NAME", *checked, "fashion-mnist, mnist, cifar10, npy:DIR or folder:DIR")
      ->required()
      ->type_name("");
  check->add_option("--set", *settings, "how to read it: --set data.image_size=32")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  check->footer("Examples:\n  lockstep data check cifar10\n  lockstep data check npy:my-data");

  return {{list, [json] { return list_sources(*json); }},
          {get, [name, from] { return get_source(*name, *from); }},
          {check, [=] { return check_source(*checked, *settings); }}};
}

}  // namespace lockstep::cli
