#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/host.h"
#include "base/shipped.h"
#include "base/units.h"
#include "cli/lab.h"
#include "cli/tell.h"
#include "cli/train_flags.h"
#include "cli/train_recipe.h"
#include "data/datasets.h"
#include "data/training_data.h"
#include "device/kinds.h"
#include "lab/dp_vs_ddp.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using lab::DataWay;
using lab::DpVsDdpRow;

struct DpVsDdpFlags {
  TrainFlags train;
  std::vector<int> devices = {1, 2, 4};
  int rounds = 2;
  double timeout = 600;
  std::optional<std::string> out;
  std::optional<std::string> csv;
  bool json = false;
};

// A folder for runs, removed with them unless it was asked for.
class RunsFolder {
 public:
  explicit RunsFolder(const std::optional<std::string>& asked) : is_kept_(asked.has_value()) {
    if (is_kept_) {
      path_ = *asked;
      return;
    }
    std::string name = (fs::temp_directory_path() / "lockstep-lab-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw BadInput("{}: cannot make a folder there for the runs; give one by --out", name);
    path_ = name;
  }
  ~RunsFolder() {
    std::error_code ignored;
    if (!is_kept_) fs::remove_all(path_, ignored);
  }
  RunsFolder(const RunsFolder&) = delete;
  RunsFolder& operator=(const RunsFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  const bool is_kept_;
  fs::path path_;
};

// One line on a terminal, which the next one replaces; else a line each.
void show_run(const std::string& what) {
  if (isatty(STDERR_FILENO) != 0)
    std::fputs(fmt::format("\r\033[K{}", what).c_str(), stderr);
  else if (!what.empty())
    tell(what);
}

int most_of(const std::vector<int>& devices) {
  return devices.empty() ? 1 : std::max(*std::ranges::max_element(devices), 1);
}

// Of the training split; nothing if a plugin has the data set.
std::optional<int64_t> samples_in(const data::DataOptions& options) {
  const std::string name = options.name.substr(0, options.name.find(':'));
  if (data::datasets().find(name) == nullptr) return std::nullopt;
  return data::load_splits(options).train->size();
}

// At most the usual batch and what the data set has, in equal pieces for the most devices.
int64_t default_batch(const Recipe& recipe, const DpVsDdpFlags& flags) {
  constexpr int64_t kOfDenseLayers = 512;
  const int64_t usual = is_given(flags.train, "model.name") ? Recipe().train.batch : kOfDenseLayers;
  const int64_t most = std::min(usual, samples_in(recipe.data).value_or(usual));
  const int64_t accumulate = recipe.train.accumulate;
  int64_t pieces = most_of(flags.devices) * accumulate;
  if (recipe.train.shards > 0)
    pieces = recipe.train.shards * accumulate;
  else if (pieces > most)
    pieces = accumulate;
  return std::max<int64_t>(most / pieces, 1) * pieces;
}

// One shard for each of the most devices, where the batch can be divided so: with more, all ways
// have more to add, and DataParallel to copy.
int64_t default_shards(const Recipe& recipe, const std::vector<int>& devices) {
  const auto divide_batch = [&](int64_t shards) {
    return recipe.train.batch % (shards * recipe.train.accumulate) == 0;
  };
  const int64_t most = most_of(devices);
  if (most > 1 && divide_batch(most)) return most;
  int64_t shards = shards_of(recipe);
  while (shards > 1 && !divide_batch(shards)) --shards;
  return shards;
}

// What neither a recipe nor flags give: asynchronous virtual devices, equal steps, and without a
// recipe a model of dense layers, whose evaluation is short.
Recipe usual_recipe(const TrainFlags& flags) {
  Recipe recipe;
  recipe.device.kind = "virtual";
  recipe.device.asynchronous = true;
  recipe.train.drop_last = true;
  if (!flags.recipe) recipe.model.name = "mlp";
  return recipe;
}

void check_devices(Recipe& recipe, const TrainFlags& flags) {
  const auto kind = device_kinds().at(recipe.device.kind).count;
  if (kind == DeviceKindRow::Count::one_per_worker)
    throw BadInput(
        "device.kind = {}: lab dp-vs-ddp needs several devices for a worker, which has only one "
        "{}; give --device virtual or --device cuda",
        recipe.device.kind, recipe.device.kind);
  if (kind != DeviceKindRow::Count::as_asked && !is_given(flags, "device.asynchronous"))
    recipe.device.asynchronous = false;
}

Recipe recipe_of(const DpVsDdpFlags& flags) {
  constexpr int64_t kSteps = 30;
  if (is_given(flags.train, "parallel.mode"))
    throw BadInput("--parallel: lab dp-vs-ddp runs both dp and ddp; leave it out");
  for (const KeyFlag& flag : flags.train.keys)
    if (flag.flag == "--batch" && flag.value == "auto")
      throw BadInput(
          "--batch auto: lab dp-vs-ddp compares ways with one batch; give a number, which "
          "`lockstep fit` finds");
  TrainFlags train = flags.train;
  train.auto_batch = !train.recipe && !is_given(train, "train.batch");
  Recipe recipe = requested_recipe(train, FolderAccess::elsewhere, usual_recipe(train)).recipe;
  check_devices(recipe, train);
  if (train.auto_batch) recipe.train.batch = default_batch(recipe, flags);
  if (recipe.train.shards == 0) recipe.train.shards = default_shards(recipe, flags.devices);
  if (recipe.train.steps == 0 && !is_given(train, "train.epochs")) recipe.train.steps = kSteps;
  validate(recipe);
  return recipe;
}

lab::DpVsDdpOptions options_of(const DpVsDdpFlags& flags, const fs::path& out) {
  return {.recipe = recipe_of(flags),
          .plugins = flags.train.plugins,
          .devices = flags.devices,
          .rounds = flags.rounds,
          .deadline_seconds = flags.timeout,
          .out = out,
          .tell = show_run};
}

nlohmann::ordered_json json_of(const DpVsDdpRow& row) {
  return {{"way", row.way == DataWay::dp ? "dp" : "ddp"},
          {"devices", row.devices},
          {"seconds_per_step", row.seconds_per_step},
          {"speedup", row.speedup},
          {"efficiency", row.efficiency},
          {"bytes_replicated", row.replicated},
          {"bytes_scattered", row.scattered},
          {"bytes_gathered", row.gathered},
          {"bytes_gradients", row.gradients},
          {"bytes_first_device", row.first_moves},
          {"bytes_other_device", row.other_moves},
          {"peak_first_device", row.first_peak},
          {"peak_other_device", row.other_peak},
          {"waiting_share", row.waiting},
          {"shares_cores", row.shares_cores},
          {"model_sha256", row.digest}};
}

void write_csv(const std::vector<DpVsDdpRow>& rows, const std::string& file) {
  std::string text;
  for (const DpVsDdpRow& row : rows) {
    std::vector<std::string> names, values;
    const nlohmann::ordered_json fields = json_of(row);
    for (const auto& [name, value] : fields.items()) {
      names.push_back(name);
      values.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    }
    if (text.empty()) text = fmt::format("{}\n", fmt::join(names, ","));
    text += fmt::format("{}\n", fmt::join(values, ","));
  }
  write_file_atomically(file, text);
}

// "69.7 KiB", "-" for nothing.
std::string bytes_or_none(int64_t count) {
  return count == 0 ? "-" : format_bytes(count);
}

void print_row(const DpVsDdpRow& row) {
  fmt::print(
      "{:<12} {:>7} {:>9.2f}{} {:>7.2f} {:>6.0f} {} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} "
      "{:>10} {:>10} {:>6.1f} %  {}\n",
      lab::name_of(row.way), row.devices, 1e3 * row.seconds_per_step, row.shares_cores ? "*" : " ",
      row.speedup, 100 * row.efficiency, row.is_credible() ? '%' : '!',
      bytes_or_none(row.replicated), bytes_or_none(row.scattered), bytes_or_none(row.gathered),
      bytes_or_none(row.gradients), bytes_or_none(row.first_moves),
      bytes_or_none(row.devices == 1 ? 0 : row.other_moves), bytes_or_none(row.first_peak),
      bytes_or_none(row.other_peak), 100 * row.waiting, row.digest.substr(0, 8));
}

void print_table(const std::vector<DpVsDdpRow>& rows, const Recipe& recipe) {
  fmt::print("{} on {}: a batch of {} in {}, {} for each {} device\n\n", recipe.model.name,
             recipe.data.name, recipe.train.batch, plural(shards_of(recipe), "shard"),
             plural(recipe.train.threads, "thread"), recipe.device.kind);
  fmt::print("{:<12} {:>7} {:>10} {:>7} {:>8} {:>43} {:>21} {:>21} {:>8}\n", "", "", "", "", "",
             "bytes between devices, in a step", "a device moves", "memory at peak", "waits");
  fmt::print(
      "{:<12} {:>7} {:>10} {:>7} {:>8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} "
      "{:>10} {:>8}  {}\n",
      "way", "devices", "ms a step", "speedup", "effic.", "replicated", "scattered", "gathered",
      "gradients", "first", "others", "first", "others", "for them", "model");
  for (const DpVsDdpRow& row : rows) print_row(row);
  fmt::print("\n");
  if (std::ranges::any_of(rows, &DpVsDdpRow::shares_cores))
    fmt::print(
        "*: measured on shared cores: this process has {}, fewer than the devices' threads.\n",
        plural(std::ssize(allowed_processors()), "core"));
  for (const std::string& sentence : lab::conclusions(rows)) fmt::print("{}\n", sentence);
  fmt::print("All ways end with the same model: sha256 {}.\n", rows.front().digest);
}

int run_dp_vs_ddp(const DpVsDdpFlags& flags) {
  const RunsFolder folder(flags.out);
  const lab::DpVsDdpOptions options = options_of(flags, folder.path());
  const std::vector<DpVsDdpRow> rows = lab::compare_dp_and_ddp(options);
  show_run("");
  if (flags.csv) write_csv(rows, *flags.csv);
  if (!flags.json) {
    print_table(rows, options.recipe);
    return 0;
  }
  for (const DpVsDdpRow& row : rows) fmt::print("{}\n", json_of(row).dump());
  return 0;
}

class LabDpVsDdpCommand final : public Command {
 public:
  explicit LabDpVsDdpCommand(CLI::App& parent)
      : Command(parent, "dp-vs-ddp",
                "Measure DataParallel against DDP, one worker a device, on 1, 2 and 4 devices") {
    hide(flags_.train, {"--parallel", "--stages", "--schedule", "--split", "--zero"});
    add_recipe_flags(app(), flags_.train);
    app()
        .add_option("--devices", flags_.devices, "numbers of devices (default 1,2,4)")
        ->delimiter(',')
        ->type_name("N,...");
    app()
        .add_option("--rounds", flags_.rounds,
                    "run every way so often, in turns, and report the fastest (default 2)")
        ->type_name("N");
    app()
        .add_option("--timeout", flags_.timeout, "end a run that takes longer (default 600)")
        ->type_name("SECONDS");
    app()
        .add_option("--out", flags_.out, "keep the runs in this folder (default: they are removed)")
        ->type_name("DIR");
    app().add_option("--csv", flags_.csv, "write the rows to this file")->type_name("FILE");
    app().add_flag("--json", flags_.json, "print one JSON object per row");
    app().footer(fmt::format(
        "Every way trains the same batch in the same shards and must end with the same model.\n"
        "A run on N devices gets N x train.threads cores. Unless the recipe or flags say "
        "otherwise, there are\n"
        "as many shards as the most devices, and 30 steps: epochs count if flags give them, not "
        "those of a recipe.\n"
        "Without a recipe it is mlp on fashion-mnist, with a batch of at most 512 (128 of another "
        "model).\n"
        "Columns are explained in {}.\n"
        "Examples:\n"
        "  lockstep lab dp-vs-ddp\n"
        "  lockstep lab dp-vs-ddp --model resnet20 --batch 64 --devices 1,2 --rounds 3\n"
        "  lockstep lab dp-vs-ddp {} --csv dp.csv --json",
        shipped("docs/parallelism.md"), shipped("recipes/fashion-convnet.toml")));
  }

  int run() override { return run_dp_vs_ddp(flags_); }

 private:
  DpVsDdpFlags flags_;
};

}  // namespace

std::unique_ptr<Command> add_lab_dp_vs_ddp(CLI::App& parent) {
  return std::make_unique<LabDpVsDdpCommand>(parent);
}

}  // namespace lockstep::cli
