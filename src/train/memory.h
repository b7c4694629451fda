#pragma once

#include <c10/core/Device.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "collective/plan/shards.h"
#include "device/memory_account.h"
#include "fit/memory_needs.h"
#include "lockstep/model.h"
#include "recipe/recipe.h"
#include "run/events.h"

namespace lockstep::train {

using fit::MemoryNeeds;

/// Of a model or some layers of it, in pipeline number `pipeline`.
MemoryNeeds memory_needs(const torch::nn::Module& model, const Recipe& recipe,
                         const collective::Shards& shards, int pipeline);

/// What parameters and buffers need in training, where both are moved into contiguous memory: each
/// begins at a multiple of so many bytes, and buffers are there twice, as they are and as they were
/// before the step.
struct StateSize {
  int64_t all = 0;
  int64_t trained = 0;  ///< of trained parameters, and so of one slot of their gradients
};
/// Without tensors that are `counted` already, to which these are added.
StateSize size_of_state(const torch::nn::Module& model, std::set<const void*>& counted);

/// Of a mirror of the model, on another device of a worker than its first.
MemoryNeeds memory_needs_of_mirror(const torch::nn::Module& model);

/// Throws OutOfMemory if a device with `limit` bytes has less than that: with the parts, and what
/// would fit instead. `who` is "virtual:0", or also names the stage.
void require_memory(const MemoryNeeds& needs, const std::string& who, int64_t limit,
                    const std::string& advice);

/// What fewer shards would need, where their gradients are in several slots; else nothing.
std::string advice_on_shards(const MemoryNeeds& needs, int64_t limit, const Recipe& recipe,
                             int pipelines);

/// What would fit instead of a whole model: how many such devices would have enough, if its layers
/// can be divided among so many.
std::string advice_on_stages(const MemoryNeeds& needs, int64_t limit, const Model& model);

/// How many samples a pass may have in a device's memory, about; `failed` were too many. `pass` is
/// called with fewer, to see what they need, and throws OutOfMemory. Nothing if that cannot be
/// found out, since it throws something else.
std::optional<int64_t> samples_that_fit(MemoryAccount& account, int64_t failed,
                                        const std::function<void(int64_t samples)>& pass);

/// How a recipe divides its batch.
struct BatchDivision {
  int64_t batch;
  int64_t shards;
  int64_t accumulate;
};

/// What would fit, to add to a message: ": about 8 would fit, as with train.batch = 64 in ...".
std::string advice(std::optional<int64_t> samples_that_fit, const BatchDivision& division);

/// {"device": "cpu", "limit": 0, "peak": 123, "parameters": 45, ...}: the memory of a device, and
/// what was in use at its peak. Null if its memory is not counted.
run::Json memory_figures(c10::Device device);

/// Those of all workers' devices, in the order of ranks, each with its "rank" and the "stages" that
/// it computes. `devices` are this worker's: of stage `first_stage`, the next one, and so on. Those
/// whose memory is not counted are left out. Collective.
run::Json memory_by_stage(const std::vector<c10::Device>& devices, int first_stage,
                          collective::Communicator& group);

/// The figures of the device that needed most; null if there is none.
run::Json largest_memory(const run::Json& by_stage);

}  // namespace lockstep::train
