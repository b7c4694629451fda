#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/shipped.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/tell.h"
#include "cli/train_flags.h"
#include "cli/train_recipe.h"
#include "device/visible.h"
#include "job/fit_job.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

using fit::DeviceNeeds;
using fit::Way;

struct FitFlags {
  TrainFlags train;
  int most_devices = 64;
  double latency_us = 10;
  double gigabits = 0;
  bool json = false;
  std::string mode = "ddp";  ///< the recipe's parallel.mode
};

// As a shell reads it back.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=:,./@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string safe = "'";
  for (const char letter : word) safe += letter == '\'' ? "'\\''" : std::string(1, letter);
  return safe + "'";
}

// Whether a way says itself what --set says. (--set would win.)
bool is_of_way(const std::string& setting) {
  const std::string key = setting.substr(0, setting.find('='));
  const std::set<std::string> of_way = {"train.batch", "train.shards", "train.accumulate",
                                        "train.precision"};
  return of_way.contains(key) || key.starts_with("parallel.");
}

// Whether --devices, if given, has a device for each worker of a way.
bool has_devices_for(const Way& way, const FitFlags& flags) {
  const std::string& devices = flags.train.placement.devices;
  if (devices.empty()) return true;
  const DeviceSelection selection = parse_devices(devices);
  return selection.count.value_or(static_cast<int>(selection.numbers.size())) >= way.devices();
}

// `lockstep train` with what was asked here, and what the way needs.
std::string command_for(const Way& way, const FitFlags& flags, const Recipe& recipe) {
  const std::set<std::string> of_way = {"--batch",    "--shards", "--accumulate",
                                        "--parallel", "--stages", "--split",
                                        "--schedule", "--zero",   "--precision"};
  std::vector<std::string> words = {"lockstep", "train"};
  if (flags.train.recipe) words.push_back(*flags.train.recipe);
  for (const KeyFlag& flag : flags.train.keys)
    if (flag.value && !of_way.contains(flag.flag))
      words.insert(words.end(), {flag.flag, *flag.value});
  for (const std::string& setting : flags.train.settings)
    if (!is_of_way(setting)) words.insert(words.end(), {"--set", setting});
  if (flags.mode != "ddp") words.insert(words.end(), {"--parallel", "ddp"});
  if (const std::string& devices = flags.train.placement.devices;
      !devices.empty() && has_devices_for(way, flags))
    words.insert(words.end(), {"--devices", devices});
  for (const std::string& plugin : flags.train.plugins)
    words.insert(words.end(), {"--load", plugin});
  for (std::string& word : way.flags(recipe)) words.push_back(std::move(word));
  for (std::string& word : words) word = shell_word(word);
  return fmt::format("{}", fmt::join(words, " "));
}

nlohmann::ordered_json json_of(const DeviceNeeds& needs) {
  return {{"parameters", needs.parameters},
          {"gradients", needs.gradients},
          {"optimizer", needs.optimizer},
          {"activations", needs.activations},
          {"batches", needs.batches}};
}

nlohmann::ordered_json if_known(const Way& way, const nlohmann::ordered_json& value) {
  return way.known ? value : nlohmann::ordered_json();
}

void print_json(const job::FitResult& found, const FitFlags& flags, const Recipe& recipe) {
  for (const Way& way : found.ways)
    fmt::print("{}\n",
               nlohmann::ordered_json{{"way", way.name()},
                                      {"devices", way.devices()},
                                      {"batch", recipe.train.batch},
                                      {"samples_per_pass", way.samples_per_pass},
                                      {"peak_bytes", if_known(way, way.needs.sum())},
                                      {"memory", if_known(way, json_of(way.needs))},
                                      {"seconds_per_step", if_known(way, way.seconds_per_step)},
                                      {"fits", way.fits},
                                      {"measured", way.measured},
                                      {"largest_batch_of_one_device", found.largest.batch},
                                      {"command", command_for(way, flags, recipe)}}
                   .dump());
}

std::string describe(const DeviceNeeds& needs) {
  std::vector<std::string> parts;
  const auto add = [&](const char* name, int64_t bytes) {
    if (bytes > 0) parts.push_back(fmt::format("{} {}", name, format_bytes(bytes)));
  };
  add("parameters", needs.parameters);
  add("gradients", needs.gradients);
  add("optimizer", needs.optimizer);
  add("activations", needs.activations);
  add("batches", needs.batches);
  return fmt::format("{}", fmt::join(parts, ", "));
}

void print_largest(const job::FitResult& found) {
  const fit::LargestBatch& largest = found.largest;
  if (largest.batch == 0) {
    fmt::print("One device does not take even one sample.\n");
    return;
  }
  fmt::print("One device takes a batch of {}{} at once: {} ({}).\n",
             largest.is_all_samples ? "" : "at most ", largest.batch,
             format_bytes(largest.needs.sum()), describe(largest.needs));
  if (largest.is_all_samples) fmt::print("(The data set has no more samples.)\n");
}

void print_way(const Way& way, const FitFlags& flags, const Recipe& recipe) {
  if (!way.known) {
    fmt::print("{:<42} {:>7} {:>14} {:>11}\n", way.name(), way.devices(), way.samples_per_pass,
               "unknown");
    return;
  }
  fmt::print("{:<42} {:>7} {:>14} {:>11}{} {:>14.4f} {:>10.1f}\n", way.name(), way.devices(),
             way.samples_per_pass, format_bytes(way.needs.sum()), way.measured ? " " : "*",
             way.seconds_per_step, static_cast<double>(recipe.train.batch) / way.seconds_per_step);
  if (way.fits) fmt::print("    {}\n", command_for(way, flags, recipe));
}

void print_text(const job::FitResult& found, const FitFlags& flags, const Recipe& recipe) {
  fmt::print("{} on {}, {}; devices with {} of memory\n", recipe.model.name, recipe.data.name,
             recipe.optimizer.name, format_bytes(found.limit));
  print_largest(found);
  fmt::print("\nWays to train with a batch of {}:\n", recipe.train.batch);
  fmt::print("{:<42} {:>7} {:>14} {:>11}  {:>14} {:>10}\n", "", "devices", "samples a pass",
             "memory", "seconds a step", "samples/s");
  bool fit_before = true, computed = false, unknown = false;
  for (const Way& way : found.ways) {
    if (fit_before && !way.fits) fmt::print("These do not fit:\n");
    fit_before = way.fits;
    computed = computed || (way.known && !way.measured);
    unknown = unknown || !way.known;
    print_way(way, flags, recipe);
  }
  fmt::print(
      "\nMemory is that of the device that needs most. Devices compute as fast as the one that "
      "was\n"
      "measured. Ways with equally many samples a pass and equally many shards end with the same "
      "model;\nBatchNorm normalises over the samples of a pass. bf16 rounds more, with another "
      "model.\n");
  if (computed)
    fmt::print(
        "*: computed from smaller passes, since it needs more than a device has, or than this host "
        "has\nleft.\n");
  if (!std::ranges::all_of(found.ways, [&](const Way& way) { return has_devices_for(way, flags); }))
    fmt::print("Commands of ways with more devices than --devices {} are without it.\n",
               flags.train.placement.devices);
  if (std::ranges::none_of(found.ways, &Way::fits))
    fmt::print(
        "None of these fits, on up to the {} devices of --max-devices: use devices with more "
        "memory,\nor a smaller model.\n",
        flags.most_devices);
  if (unknown)
    fmt::print(
        "unknown: not even the smallest pass could be measured in {}, or in what this host has "
        "left.\n",
        format_bytes(found.limit));
  for (const std::string& sentence : found.left_out) fmt::print("{}.\n", sentence);
}

// One line on a terminal, which the next one replaces.
void show_progress(const std::string& what) {
  if (isatty(STDERR_FILENO) != 0) std::fputs(fmt::format("\r\033[K{}", what).c_str(), stderr);
}

class FitCommand final : public Command {
 public:
  explicit FitCommand(CLI::App& parent)
      : Command(parent, "fit",
                "Find out what fits into devices' memory, and how to train the rest") {
    add_recipe_flags(app(), flags_.train);
    app()
        .add_option("--devices", flags_.train.placement.devices,
                    "measure on the first of these devices: virtual:2, as for train")
        ->type_name("KIND:LIST");
    app()
        .add_option("--max-devices", flags_.most_devices,
                    "ways with more devices are left out (default 64)")
        ->type_name("N");
    app()
        .add_option("--latency", flags_.latency_us,
                    "microseconds of a message between devices (default 10)")
        ->type_name("US");
    app()
        .add_option("--bandwidth", flags_.gigabits,
                    "gigabits per second between devices (default: as this host copies memory)")
        ->type_name("GBIT");
    app().add_flag("--json", flags_.json, "print one JSON object per way");
    app().footer(fmt::format(
        "Real passes are measured in this process on a device whose memory is counted.\n"
        "Examples:\n"
        "  lockstep fit {0} --device-memory 16MiB --batch 512\n"
        "  lockstep fit --data cifar10 --model resnet18 --batch 256 --device-memory 1GiB\n"
        "  lockstep fit --load libmine.so --model mine --batch 64 --device-memory 8GiB --json",
        shipped("recipes/fashion-convnet.toml")));
  }

  int run() override {
    refuse_what_ways_have();
    if (flags_.most_devices < 1)
      throw BadInput("--max-devices {}: expected 1 or more", flags_.most_devices);
    if (!(flags_.latency_us >= 0))
      throw BadInput("--latency {}: expected 0 or more microseconds", flags_.latency_us);
    if (!(flags_.gigabits >= 0))
      throw BadInput("--bandwidth {}: expected 0 or more gigabits per second", flags_.gigabits);
    Recipe recipe = requested_recipe(flags_.train, FolderAccess::elsewhere).recipe;
    flags_.mode = std::exchange(recipe.parallel.mode, "ddp");  // ways are none of "dp"
    if (recipe.train.compress != "none" || recipe.optimizer.clip_norm > 0)
      tell(
          "memory that train.compress and optimizer.clip_norm need is not in these figures: leave "
          "some of it free");
    const job::FitResult found = job::find_what_fits({.recipe = recipe,
                                                      .plugins = flags_.train.plugins,
                                                      .devices = flags_.train.placement.devices,
                                                      .most_devices = flags_.most_devices,
                                                      .latency = flags_.latency_us / 1e6,
                                                      .bytes_per_second = flags_.gigabits * 1e9 / 8,
                                                      .tell = show_progress});
    show_progress("");
    if (flags_.json)
      print_json(found, flags_, recipe);
    else
      print_text(found, flags_, recipe);
    return 0;
  }

 private:
  void refuse_what_ways_have() const {
    for (const KeyFlag& flag : flags_.train.keys) {
      if (!flag.value) continue;
      if (flag.flag == "--batch" && *flag.value == "auto")
        throw BadInput(
            "--batch auto: fit says itself what the largest batch of a device is; give the batch "
            "that you want, or use `lockstep train --batch auto`");
      if (flag.flag == "--parallel" || flag.flag == "--stages" || flag.flag == "--split" ||
          flag.flag == "--schedule" || flag.flag == "--zero")
        throw BadInput(
            "{}: fit finds the ways to train by itself, with and without it; leave it out",
            flag.flag);
    }
  }

  FitFlags flags_;
};

}  // namespace

std::unique_ptr<Command> add_fit(CLI::App& parent) {
  return std::make_unique<FitCommand>(parent);
}

}  // namespace lockstep::cli
