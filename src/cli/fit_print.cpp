#include "cli/fit_print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/units.h"
#include "cli/tell.h"
#include "device/visible.h"

namespace lockstep::cli {

using fit::DeviceNeeds;
using fit::Way;

namespace {

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

// "1 device (accumulate)".
std::string devices_of(const Way& way) {
  const std::string devices = plural(way.devices(), "device");
  return way.name() == "one device" ? devices : fmt::format("{} ({})", devices, way.name());
}

// Those of which `is` is true.
std::vector<Way> some_of(const std::vector<Way>& ways, bool Way::* is) {
  std::vector<Way> chosen;
  for (const Way& way : ways)
    if (way.*is) chosen.push_back(way);
  return chosen;
}

// How many devices the batch needs: with plain data parallelism, at least, and to be fast.
std::vector<std::string> answers(const job::FitResult& found, const FitFlags& flags,
                                 const Recipe& recipe) {
  const std::vector<Way> fitting = some_of(found.ways, &Way::fits);
  const auto plain =
      std::ranges::find_if(fitting, [](const Way& way) { return way.name() == "data parallel"; });
  std::string about_plain = fmt::format("Plain data parallelism does not fit on up to {}",
                                        plural(flags.most_devices, "device"));
  if (found.largest.batch >= recipe.train.batch)
    about_plain = fmt::format("One device takes the whole batch of {}", recipe.train.batch);
  else if (plain != fitting.end())
    about_plain = fmt::format("A batch of {} needs {} with plain data parallelism, {} on each",
                              recipe.train.batch, plural(plain->devices(), "device"),
                              plural(plain->samples_per_pass, "sample"));
  if (fitting.empty()) return {about_plain};
  return {about_plain,
          fmt::format("The fewest: {}; the fastest: {}",
                      devices_of(*std::ranges::min_element(fitting, {}, &Way::devices)),
                      devices_of(*fitting.begin()))};
}

// What to know about the ways, and what is not among them.
std::vector<std::string> remarks_on(const job::FitResult& found, const FitFlags& flags) {
  std::vector<std::string> all;
  const auto some = [&](auto has) { return std::ranges::any_of(found.ways, has); };
  if (some([](const Way& way) { return way.known && !way.measured; }))
    all.emplace_back(
        "*: computed from smaller passes, since it needs more than a device has, or than this host "
        "has left");
  if (some([&](const Way& way) { return !has_devices_for(way, flags); }))
    all.push_back(fmt::format("Commands of ways with more devices than --devices {} are without it",
                              flags.train.placement.devices));
  if (!some([](const Way& way) { return way.fits; })) {
    std::string least;
    const std::vector<Way> known = some_of(found.ways, &Way::known);
    const auto needs = [](const Way& way) { return way.needs.sum(); };
    if (const auto way = std::ranges::min_element(known, {}, needs); way != known.end())
      least = fmt::format(": {} with {} would need about {} a device", devices_of(*way),
                          plural(way->samples_per_pass, "sample"), format_bytes(needs(*way)));
    all.push_back(fmt::format(
        "None of these fits, on up to the {} of --max-devices; use devices with more memory, or "
        "a smaller model{}",
        plural(flags.most_devices, "device"), least));
  }
  if (some([](const Way& way) { return !way.known; }))
    all.push_back(fmt::format(
        "unknown: not even the smallest pass could be measured in {}, or in what this host has "
        "left",
        format_bytes(found.limit)));
  if (found.times == job::FitResult::Times::rough)
    all.emplace_back(
        "This host was busy: times are rough, and so is the order of ways; memory is not affected");
  all.insert(all.end(), found.left_out.begin(), found.left_out.end());
  return all;
}

}  // namespace

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
  for (const std::string& sentence : remarks_on(found, flags)) tell(sentence);
}

namespace {

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

// Columns: the widest name of a way, and numbers.
constexpr const char* kColumns = "{:<{}} {:>7} {:>6} {:>14} {:>11}{} {:>14} {:>10}\n";

void print_way(const Way& way, size_t width, const FitFlags& flags, const Recipe& recipe) {
  const bool known = way.known;
  fmt::print(
      kColumns, way.name(), width, way.devices(), way.pipelines * way.shards, way.samples_per_pass,
      known ? format_bytes(way.needs.sum()) : "unknown", known && !way.measured ? "*" : " ",
      known ? fmt::format("{:.4f}", way.seconds_per_step) : "",
      known ? fmt::format("{:.1f}", static_cast<double>(recipe.train.batch) / way.seconds_per_step)
            : "");
  if (way.fits) fmt::print("    {}\n", command_for(way, flags, recipe));
}

void print_table(const job::FitResult& found, const FitFlags& flags, const Recipe& recipe) {
  size_t width = 0;
  for (const Way& way : found.ways) width = std::max(width, way.name().size());
  const bool some_fit = std::ranges::any_of(found.ways, &Way::fits);
  fmt::print("\nWays to train with a batch of {}{}:\n", recipe.train.batch,
             some_fit ? ", the fastest first" : ", none of which fits");
  fmt::print(kColumns, "", width, "devices", "shards", "samples a pass", "memory", " ",
             "seconds a step", "samples/s");
  bool fit_before = some_fit;
  for (const Way& way : found.ways) {
    if (fit_before && !way.fits) fmt::print("These do not fit:\n");
    fit_before = way.fits;
    print_way(way, width, flags, recipe);
  }
}

}  // namespace

void print_text(const job::FitResult& found, const FitFlags& flags, const Recipe& recipe) {
  fmt::print("{} on {}, {}; devices with {} of memory\n", recipe.model.name, recipe.data.name,
             recipe.optimizer.name, format_bytes(found.limit));
  print_largest(found);
  for (const std::string& sentence : answers(found, flags, recipe)) fmt::print("{}.\n", sentence);
  print_table(found, flags, recipe);
  fmt::print(
      "\nMemory is that of the device that needs most. Devices compute as fast as the one that "
      "was\n"
      "measured. Ways with equally many samples a pass and equally many shards end with the same "
      "model;\nBatchNorm normalises over the samples of a pass. bf16 rounds more, with another "
      "model.\n");
  for (const std::string& sentence : remarks_on(found, flags)) fmt::print("{}.\n", sentence);
}

}  // namespace lockstep::cli
