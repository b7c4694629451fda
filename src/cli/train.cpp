#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/command.h"
#include "lockstep/error.h"
#include "observe/events.h"
#include "observe/progress.h"
#include "recipe/recipe.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using observe::Json;

// Signal handlers can reach nothing else.
std::atomic<bool> stop_asked = false;
std::atomic<int> stop_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void ask_to_stop(int signal) {
  stop_asked = true;
  stop_signal = signal;
}

// The first Ctrl-C (or SIGTERM) ends the run with a checkpoint; a second one kills it.
void stop_on_signals() {
  struct sigaction action = {};
  action.sa_handler = ask_to_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

// A flag that is short for a recipe key.
struct KeyFlag {
  std::string flag;
  std::string key;
  std::string kind;
  std::string about;
  std::string value;
};

struct TrainFlags {
  std::string recipe;
  std::vector<KeyFlag> keys = {
      {"--data", "data.name", "NAME", "fashion-mnist, mnist, cifar10, npy:DIR or folder:DIR", ""},
      {"--model", "model.name", "NAME", "convnet, mlp, logistic, resnet18, resnet20, ...", ""},
      {"--weights", "model.weights", "FILE", "start from these weights (safetensors)", ""},
      {"--batch", "train.batch", "N", "samples a step", ""},
      {"--epochs", "train.epochs", "N", "passes over the training split", ""},
      {"--steps", "train.steps", "N", "end after this many steps instead of by epochs", ""},
      {"--lr", "optimizer.lr", "RATE", "highest learning rate", ""},
      {"--seed", "train.seed", "N", "every random number follows from this", ""},
  };
  std::vector<std::string> settings;
  std::string out;
  bool resume = false;
  bool json = false;
  bool print_recipe = false;
  std::optional<int64_t> stop_at_step;
};

void apply(Recipe& recipe, const std::string& origin, std::string_view key,
           std::string_view value) {
  try {
    set(recipe, key, value);
    validate(recipe);
  } catch (const BadInput& error) {
    throw BadInput("{} {}: {}", origin, value, error.what());
  }
}

void apply_flags(Recipe& recipe, const TrainFlags& flags) {
  for (const KeyFlag& flag : flags.keys)
    if (!flag.value.empty()) apply(recipe, flag.flag, flag.key, flag.value);
  for (const std::string& setting : flags.settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos)
      throw BadInput("--set {}: expected KEY=VALUE, such as optimizer.lr=0.1", setting);
    apply(recipe, "--set", setting.substr(0, equals), setting.substr(equals + 1));
  }
}

Recipe recipe_from(const TrainFlags& flags, Recipe base) {
  Recipe recipe = flags.recipe.empty() ? std::move(base) : read_recipe(flags.recipe);
  apply_flags(recipe, flags);
  validate(recipe);
  return recipe;
}

// A recipe and the folder it is to run in; the folder is made once the recipe has proved sound.
struct Job {
  Recipe recipe;
  fs::path folder;
};

Job new_job(const TrainFlags& flags) {
  const Recipe recipe = recipe_from(flags, {});
  if (!flags.out.empty()) return {recipe, flags.out};
  const std::string data = fs::path(recipe.data.source.name).filename().string();
  const std::string name = flags.recipe.empty() ? fmt::format("{}-{}", data, recipe.model.name)
                                                : fs::path(flags.recipe).stem().string();
  return {recipe, train::next_run_folder("runs", name)};
}

Job job_to_resume(const TrainFlags& flags) {
  if (flags.out.empty()) throw BadInput("--resume: say which run with --out DIR");
  const Recipe used = read_recipe(train::RunFolder::open(flags.out).recipe());
  const Recipe asked = recipe_from(flags, used);
  if (const auto different = differences(asked, used); !different.empty())
    throw BadInput(
        "--resume --out {}: the recipe differs from the one this run began with: {}; "
        "resume without changes, or start a new run",
        flags.out, fmt::join(different, "; "));
  return {used, flags.out};
}

std::string shares(const Json& spans) {
  double total = 0;
  for (const auto& [name, seconds] : spans.items()) total += seconds.get<double>();
  std::vector<std::string> parts;
  for (const auto& [name, seconds] : spans.items())
    if (const double share = 100 * seconds.get<double>() / total; share >= 0.05)
      parts.push_back(fmt::format("{} {:.1f} %", name, share));
  return fmt::format("{}", fmt::join(parts, ", "));
}

void print_summary(const Json& end, const fs::path& run) {
  fmt::print("test accuracy  {:.2f} %\n", 100 * end["test_accuracy"].get<double>());
  fmt::print("speed          {} samples/s\n",
             format_count(end["samples_per_second"].get<int64_t>()));
  fmt::print("time           {} ({})\n", format_duration(end["seconds"]), shares(end["spans"]));
  fmt::print("model sha256   {}\n", end["model_sha256"].get<std::string>());
  fmt::print("files          {}\n", run.string());
}

int train_and_tell(const TrainFlags& flags) {
  const Job job = flags.resume ? job_to_resume(flags) : new_job(flags);
  if (flags.print_recipe) {
    fmt::print("{}", to_toml(job.recipe));
    return 0;
  }
  train::Trainer trainer(job.recipe);
  const train::RunFolder run = flags.resume ? train::RunFolder::open(job.folder)
                                            : train::RunFolder::create(job.folder, job.recipe);
  observe::EventLog events(run.events());
  observe::Progress progress(stderr);
  events.listen([&](const Json& event) { progress.show(event); });
  stop_on_signals();
  train::Trainer::Limits limits{.stop = &stop_asked};
  if (flags.stop_at_step) limits.stop_at_step = *flags.stop_at_step;
  const Json last = trainer.run(run, events, limits);
  const bool finished = last["event"] == "end";
  if (flags.json)
    fmt::print("{}\n", last.dump());
  else if (finished)
    print_summary(last, run.path());
  if (!finished)
    fmt::print(stderr, "go on with:  lockstep train --resume --out {}\n", run.path().string());
  return stop_signal == 0 ? 0 : 128 + stop_signal;
}

}  // namespace

Command add_train(CLI::App& parent) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* app = parent.add_subcommand("train", "Train a model as a recipe says");
  app->add_option("RECIPE", flags->recipe, "a TOML file; without one, convnet on fashion-mnist")
      ->type_name("");
  for (KeyFlag& flag : flags->keys)
    app->add_option(flag.flag, flag.value, flag.about)->type_name(flag.kind);
  app->add_option("--set", flags->settings, "any recipe key: --set optimizer.momentum=0.95")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  app->add_option("--out", flags->out, "the run's folder (default: runs/NAME-N)")->type_name("DIR");
  app->add_flag("--resume", flags->resume, "go on with the run in --out from its last checkpoint");
  app->add_option("--stop-at-step", flags->stop_at_step, "stop there, with a checkpoint")
      ->type_name("N");
  app->add_flag("--print-recipe", flags->print_recipe,
                "print the whole recipe, every key with its meaning, and train nothing");
  app->add_flag("--json", flags->json, "print the result as one JSON object on stdout");
  app->footer(
      "Ctrl-C ends after the step under way, with a checkpoint.\n"
      "Examples:\n"
      "  lockstep train recipes/fashion-convnet.toml\n"
      "  lockstep train --data cifar10 --model resnet20 --epochs 2 --out runs/first\n"
      "  lockstep train --resume --out runs/first\n"
      "  lockstep train --model resnet20 --data cifar10 --print-recipe > mine.toml\n"
      "  lockstep train --data npy:my-data --model mlp --set optimizer.name=adamw --lr 0.001 "
      "--json");
  return {app, [flags] { return train_and_tell(*flags); }};
}

}  // namespace lockstep::cli
