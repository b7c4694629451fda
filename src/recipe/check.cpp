#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/nearest.h"
#include "base/range.h"
#include "base/units.h"
#include "lockstep/error.h"
#include "pipeline/workers.h"
#include "recipe/keys.h"

namespace lockstep {
namespace {

void check_range(const Key& key, double value, std::string_view origin) {
  if (value >= key.least && value <= key.most) return;
  throw BadInput("{}{} = {}: expected {}", origin, key.name, value_text(key),
                 value > key.most ? fmt::format("at most {}", key.most)
                                  : fmt::format("at least {}", key.least));
}

void check_list(const Key& key, const std::vector<double>& numbers, std::string_view origin) {
  for (const double number : numbers) check_range(key, number, origin);
  const auto falls = std::adjacent_find(numbers.begin(), numbers.end(), std::greater_equal<>());
  if (falls != numbers.end())
    throw BadInput("{}{} = {}: expected increasing numbers, but {} comes after {}", origin,
                   key.name, value_text(key), falls[1], falls[0]);
}

bool is_utf8(const std::string& text) {
  try {
    static_cast<void>(nlohmann::json(text).dump());
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

std::optional<int64_t> whole_number(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

void check_text(const Key& key, const std::string& text, std::string_view origin) {
  if (!is_utf8(text))
    throw BadInput("{}{} = {}: is not UTF-8, so a recipe cannot hold it", origin, key.name,
                   value_text(key));
  const auto& choices = key.choices;
  if (choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end()) return;
  if (key.number_too)
    if (const auto number = whole_number(text))
      return check_range(key, static_cast<double>(*number), origin);
  throw BadInput("{}{} = \"{}\": no such choice{}; there are: {}{}", origin, key.name, text,
                 did_you_mean(text, choices), fmt::join(choices, ", "),
                 key.number_too ? ", or a number" : "");
}

// Whether TOML accepts the key without quotes.
bool is_bare_key(std::string_view key) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
  return !key.empty() && key.find_first_not_of(kAllowed) == std::string_view::npos;
}

void check_division(const Recipe& recipe) {
  const int64_t batch = recipe.train.batch;
  const int64_t shards = shards_of(recipe);
  if (batch % shards != 0)
    throw BadInput(
        "train.shards = {}: train.batch = {} cannot be divided into that many equal parts; use a "
        "divisor of {}",
        shards, batch, batch);
  if (batch / shards % recipe.train.accumulate != 0)
    throw BadInput(
        "train.accumulate = {}: a shard has {} samples (train.batch = {} in {} shards), which "
        "cannot be divided into that many equal pieces; use a divisor of {}, or a batch that is a "
        "multiple of {}",
        recipe.train.accumulate, batch / shards, batch, shards, batch / shards, pieces_of(recipe));
}

// Who leaves out the unit means another.
void check_memory(const Recipe& recipe) {
  constexpr int64_t kLeast = 1024;
  const std::string& memory = recipe.device.memory;
  if (memory.empty()) return;
  if (const int64_t bytes = parse_bytes(memory); bytes > 0 && bytes < kLeast)
    throw BadInput("device.memory = {} is {} bytes: give it with a unit, such as 24MiB or 24GiB",
                   memory, bytes);
}

// An update that depends on more than an element and its gradient cannot be divided anywhere.
void check_zero(const Recipe& recipe) {
  if (!recipe.parallel.zero || optim::optimizers().at(recipe.optimizer.name).elementwise) return;
  std::vector<std::string> possible;
  for (const auto& row : optim::optimizers())
    if (row->elementwise) possible.push_back(row->name);
  throw BadInput(
      "parallel.zero (--zero): optimizer.name = \"{}\" computes the norms of whole layers, of "
      "which a worker would have only a share; use {}, or leave parallel.zero out",
      recipe.optimizer.name, fmt::join(possible, " or "));
}

constexpr const char* kMode = "parallel.mode = \"dp\" (--parallel dp)";

// What cannot be together with one worker that has the whole model on several devices.
void check_data_parallel(const Recipe& recipe) {
  if (recipe.parallel.stages > 1)
    throw BadInput(
        "{}: every device has the whole model, but parallel.stages = {} (--stages) divides it; "
        "leave one of them out",
        kMode, recipe.parallel.stages);
  if (recipe.device.kind == "cpu")
    throw BadInput(
        "{}: needs several devices, and device.kind = \"cpu\" is one; use virtual devices "
        "(--device virtual --devices virtual:2), or several workers on the CPU (--workers 2)",
        kMode);
  if (recipe.parallel.zero)
    throw BadInput(
        "{}: has one worker, and parallel.zero (--zero) divides the optimizer's state among "
        "several; leave one of them out",
        kMode);
  if (recipe.train.compress == "power_sgd")
    throw BadInput(
        "{}: train.compress = \"power_sgd\" needs one shard per worker, and the one worker has "
        "all; use --parallel ddp, or another train.compress",
        kMode);
}

void check_mode(const Recipe& recipe) {
  if (is_data_parallel(recipe)) return check_data_parallel(recipe);
  if (recipe.parallel.mode == "pipeline" && recipe.parallel.stages == 1)
    throw BadInput(
        "parallel.mode = \"pipeline\" (--parallel pipeline): parallel.stages = 1; say into how "
        "many stages the model is divided, by --stages 2 or more");
}

// Pipelines that have more shards than others have one more.
void check_micro_batches(const Recipe& recipe, pipeline::PipelineShape shape, int pipelines) {
  const auto& row = pipeline::pipeline_schedules().at(recipe.parallel.schedule);
  for (const int64_t index : {0, pipelines - 1}) {
    shape.micro_batches = static_cast<int>(slice(shards_of(recipe), pipelines, index).size() *
                                           recipe.train.accumulate);
    try {
      pipeline::check(row, shape);
    } catch (const BadInput& error) {
      throw BadInput(
          "{} (parallel.schedule = \"{}\", parallel.parts_per_stage = {}, {} in {} with "
          "train.accumulate = {})",
          error.what(), recipe.parallel.schedule, recipe.parallel.parts_per_stage,
          plural(shards_of(recipe), "shard"), plural(pipelines, "pipeline"),
          recipe.train.accumulate);
    }
  }
}

}  // namespace

void check(const Key& key, std::string_view origin) {
  const auto look = [&]<typename T>(T* target) {
    if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>)
      check_range(key, static_cast<double>(*target), origin);
    else if constexpr (std::is_same_v<T, std::vector<double>>)
      check_list(key, *target, origin);
    else if constexpr (std::is_same_v<T, std::string>)
      check_text(key, *target, origin);
  };
  std::visit(look, key.target);
}

void check_option(const OptionTable& table, std::string_view key, const TomlValue& value,
                  std::string_view origin) {
  if (!is_bare_key(key))
    throw BadInput("{}'{}' in [{}]: expected a key of letters, digits, _ and -", origin, key,
                   table.name);
  if (const auto* text = std::get_if<std::string>(&value); text != nullptr && !is_utf8(*text))
    throw BadInput("{}{}.{} = {}: is not UTF-8, so a recipe cannot hold it", origin, table.name,
                   key, toml_text(value));
}

void validate(const Recipe& recipe) {
  Recipe copy = recipe;
  for (const Key& key : keys(copy)) check(key, "");
  for (const OptionTable& table : option_tables(copy))
    for (const auto& [key, value] : table.options->values())
      check_option(table, key, toml_value_or_text(value), "");
  optim::schedules().at(recipe.schedule.name).check(recipe.schedule);
  check_division(recipe);
  check_memory(recipe);
  check_mode(recipe);
  check_zero(recipe);
}

void check_device_count(const Recipe& recipe, int64_t devices) {
  if (!is_data_parallel(recipe) || devices <= pieces_of(recipe)) return;
  throw BadInput(
      "{}: there are {} devices (--devices), but only {} to compute in a step, so that some "
      "devices would have none; use fewer devices, or set train.shards (--shards) to a divisor of "
      "{} that is at least {}",
      kMode, devices,
      recipe.train.accumulate == 1 ? plural(shards_of(recipe), "shard")
                                   : fmt::format("{} of {}", plural(pieces_of(recipe), "piece"),
                                                 plural(shards_of(recipe), "shard")),
      recipe.train.batch / recipe.train.accumulate,
      (devices + recipe.train.accumulate - 1) / recipe.train.accumulate);
}

void check_worker_count(const Recipe& recipe, int workers) {
  if (is_data_parallel(recipe) && workers > 1)
    throw BadInput(
        "--workers {}: {} is one worker with several devices (--devices); leave --workers out, or "
        "use --parallel ddp, which has one device for each worker",
        workers, kMode);
  const int64_t shards = shards_of(recipe);
  const pipeline::PipelineShape shape = pipeline_shape(recipe);
  if (shape.parts() > 1) {
    const int pipelines = pipeline::pipelines_of(shape, workers);
    if (pipelines > shards)
      throw BadInput(
          "--workers {} are {} pipelines of {} stages, and the recipe has {}: each pipeline needs "
          "at least one; set train.shards (--shards) to more, or use fewer workers",
          workers, pipelines, shape.stages, plural(shards, "shard"));
    check_micro_batches(recipe, shape, pipelines);
    return;
  }
  if (workers <= shards) return;
  throw BadInput(
      "--workers {}: the recipe has {} shard{}, and each worker needs at least one; set "
      "train.shards (--shards) to a divisor of {} that is at least {}, or use fewer workers",
      workers, shards, shards == 1 ? "" : "s", recipe.train.batch / recipe.train.accumulate,
      workers);
}

}  // namespace lockstep
