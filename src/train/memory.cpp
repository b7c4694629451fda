#include "train/memory.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdlib>

#include "base/units.h"
#include "lockstep/error.h"
#include "lockstep/sequential_model.h"
#include "parallel/flat_state.h"
#include "parallel/gradient_layout.h"
#include "parallel/shard_schedule.h"
#include "parallel/tensor_buffer.h"
#include "virtual_devices/accounts.h"

namespace lockstep::train {

MemoryNeeds memory_needs_of_mirror(const torch::nn::Module& model) {
  int64_t all = 0, trained = 0;
  for (const torch::Tensor& parameter : model.parameters()) {
    const auto bytes = static_cast<int64_t>(parameter.nbytes());
    all += bytes;
    if (parameter.requires_grad()) trained += bytes;
  }
  for (const torch::Tensor& buffer : model.buffers()) all += static_cast<int64_t>(buffer.nbytes());
  return {.parameters = all, .gradients = trained};
}

StateSize size_of_state(const torch::nn::Module& model, std::set<const void*>& counted) {
  StateSize size;
  const auto is_new = [&](const torch::Tensor& tensor) {
    return counted.insert(tensor.unsafeGetTensorImpl()).second;
  };
  for (const torch::Tensor& parameter : model.parameters()) {
    if (!is_new(parameter)) continue;
    const auto bytes = static_cast<int64_t>(parameter.nbytes());
    if (parameter.requires_grad()) size.trained += parallel::bytes_in_layout(bytes);
    size.all += parameter.requires_grad() ? parallel::bytes_in_layout(bytes) : bytes;
  }
  for (const torch::Tensor& buffer : model.buffers())
    if (is_new(buffer)) size.all += 2 * parallel::aligned_bytes(buffer);
  return size;
}

MemoryNeeds memory_needs(const torch::nn::Module& model, const Recipe& recipe,
                         const collective::Shards& shards, int pipeline) {
  std::set<const void*> none;
  const StateSize size = size_of_state(model, none);
  return fit::memory_needs(size.all, size.trained, recipe,
                           parallel::schedule_of(shards, pipeline).slots,
                           recipe.parallel.zero ? shards.world_size() : 1);
}

void require_memory(const MemoryNeeds& needs, const std::string& who, int64_t limit,
                    const std::string& advice) {
  if (limit == 0 || needs.sum() <= limit) return;
  const bool look_equal = format_bytes(limit) == format_bytes(needs.sum());
  const auto shown = [&](int64_t bytes) {
    return look_equal ? format_count(bytes) + " B" : format_bytes(bytes);
  };
  throw OutOfMemory(
      who, needs.sum(), 0, limit,
      fmt::format("{} has {} of memory, and training needs {} before the first step: parameters "
                  "and buffers {}, gradients {}{}, the optimizer {}{}; `lockstep fit` lists the "
                  "ways that fit",
                  who, shown(limit), shown(needs.sum()), format_bytes(needs.parameters),
                  format_bytes(needs.gradients),
                  needs.slots > 1 ? fmt::format(" in {} slots", needs.slots) : "",
                  format_bytes(needs.optimizer), advice));
}

std::string advice_on_shards(const MemoryNeeds& needs, int64_t limit, const Recipe& recipe,
                             int pipelines) {
  if (needs.slots == 1 || shards_of(recipe) % pipelines != 0) return "";
  const int64_t less = needs.sum() - needs.gradients / needs.slots * (needs.slots - 1);
  return fmt::format(
      "; one shard for each pipeline has one slot: --shards {} --accumulate {} needs {}{}, and "
      "ends with another model",
      pipelines, pieces_of(recipe) / pipelines, format_bytes(less),
      less > limit ? ", which does not fit either" : "");
}

std::string advice_on_stages(const MemoryNeeds& needs, int64_t limit, const Model& model) {
  if (limit == 0) return "";
  const auto* const sequence = dynamic_cast<const SequentialModel*>(&model);
  const int64_t layers = sequence == nullptr ? 1 : static_cast<int64_t>(sequence->layers().size());
  const int64_t devices = (needs.sum() + limit - 1) / limit;
  std::string advice = "; set device.memory to more than that";
  if (devices <= layers)
    advice += fmt::format(
        ", or divide the model into stages (--stages): it would need at least {} devices of this "
        "size",
        devices);
  else
    advice +=
        fmt::format(": it would need {} devices of this size, but has {} to divide among them",
                    devices, plural(layers, "layer"));
  return advice;
}

namespace {

// The bytes that a pass of so many samples needs; nothing if they are too many.
std::optional<int64_t> bytes_of_pass(MemoryAccount& account, int64_t samples,
                                     const std::function<void(int64_t)>& pass) {
  const int64_t before = account.figures().in_use;
  account.forget_peak();
  try {
    pass(samples);
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
  return account.figures().peak - before;
}

}  // namespace

// What a pass needs grows with its samples along a line, through two measured points.
std::optional<int64_t> samples_that_fit(MemoryAccount& account, int64_t failed,
                                        const std::function<void(int64_t samples)>& pass) {
  try {
    int64_t one = failed / 2;
    std::optional<int64_t> needs;
    for (; one > 0; one /= 2)
      if ((needs = bytes_of_pass(account, one, pass))) break;
    if (!needs) return 0;
    const int64_t other = one > 1 ? one / 2 : 2;
    const auto other_needs = other < failed ? bytes_of_pass(account, other, pass) : std::nullopt;
    if (!other_needs) return one;
    const int64_t more = std::abs(one - other), more_needs = std::abs(*needs - *other_needs);
    const DeviceMemory memory = account.figures();
    const int64_t left = memory.limit - memory.in_use - *needs;
    return more_needs == 0 ? failed - 1 : std::min(one + left * more / more_needs, failed - 1);
  } catch (const std::exception&) {  // of a model that cannot compute so few samples
    return std::nullopt;
  }
}

std::string advice(std::optional<int64_t> samples_that_fit, const BatchDivision& division) {
  const auto& [batch, shards, accumulate] = division;
  if (samples_that_fit == 0)
    return fmt::format(
        ": not even one would fit{}; `lockstep fit` lists the ways that fit",
        shards == 1 ? ""
                    : fmt::format(" beside the gradients of {}: fewer of them (--shards) in more "
                                  "pieces (--accumulate), or more workers, need less memory",
                                  plural(shards, "shard")));
  std::string text =
      ": a smaller train.batch, or more pieces of a shard (train.accumulate), would "
      "need less memory";
  if (samples_that_fit)
    text = fmt::format(
        ": about {} would fit, as with train.batch = {} in {} of {}, or with "
        "train.accumulate = {}, where a shard's samples can be divided so",
        *samples_that_fit, *samples_that_fit * shards * accumulate, plural(shards, "shard"),
        plural(accumulate, "piece"), (batch / shards + *samples_that_fit - 1) / *samples_that_fit);
  return text;
}

run::Json memory_figures(c10::Device device) {
  const MemoryAccount* const account = virtual_devices::account_of(device);
  if (account == nullptr) return nullptr;
  const DeviceMemory memory = account->figures();
  run::Json figures = {
      {"device", account->device()}, {"limit", memory.limit}, {"peak", memory.peak}};
  for (size_t i = 0; i < kMemoryUses.size(); ++i)
    figures[std::string(kMemoryUses[i])] = memory.at_peak.bytes[i];
  return figures;
}

run::Json memory_by_stage(const std::vector<c10::Device>& devices, int first_stage,
                          collective::Communicator& group) {
  std::vector<run::Json> own;
  for (size_t i = 0; i < devices.size(); ++i) {
    run::Json figures = memory_figures(devices[i]);
    if (figures.is_null()) continue;
    const int stage = first_stage + static_cast<int>(i);
    const auto same = std::ranges::find_if(
        own, [&](const run::Json& other) { return other["device"] == figures["device"]; });
    if (same != own.end()) {
      (*same)["stages"].push_back(stage);
      continue;
    }
    figures["rank"] = group.rank();
    figures["stages"] = {stage};
    own.push_back(std::move(figures));
  }
  run::Json all = run::Json::array();
  for (const std::string& text : group.gather_texts(run::Json(own).dump()))
    for (const run::Json& figures : run::Json::parse(text)) all.push_back(figures);
  return all;
}

run::Json largest_memory(const run::Json& by_stage) {
  run::Json most;
  for (const run::Json& figures : by_stage)
    if (most.is_null() || figures["peak"] > most["peak"]) most = figures;
  if (most.is_null()) return most;
  most.erase("rank");
  most.erase("stages");
  return most;
}

}  // namespace lockstep::train
