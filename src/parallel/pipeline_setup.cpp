// How a Pipeline is made of a model: what is refused, which layers a part has, and where parts are.
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/agreement.h"
#include "base/units.h"
#include "collective/plan/shards.h"
#include "device/memory_account.h"
#include "lockstep/device_memory.h"
#include "lockstep/error.h"
#include "parallel/flat_state.h"
#include "parallel/gradient_sync.h"
#include "parallel/layer_costs.h"
#include "parallel/layer_uses.h"
#include "parallel/named_tensors.h"
#include "parallel/pipeline_state.h"
#include "parallel/same_model.h"
#include "parallel/sequence.h"
#include "pipeline/split.h"
#include "virtual_devices/accounts.h"

namespace lockstep {
namespace {

using parallel::Activations;
using parallel::ModelPart;

constexpr pipeline::OptionNames kOptionNames = {"PipelineOptions::stages", "PipelineOptions::split",
                                                "PipelineOptions::recompute"};

Activations activations_of(const PipelineOptions& options) {
  return options.recompute ? Activations::recomputed : Activations::kept;
}

pipeline::PipelineShape shape_of(const PipelineOptions& options) {
  return {options.stages, options.parts_per_stage, options.micro_batches};
}

// Does something that may fail on this worker alone. If it does, the other workers throw, too,
// instead of waiting for this one. Collective.
template <typename Action>
void together(World& world, const Action& action) {
  std::exception_ptr error;
  try {
    action();
  } catch (...) {
    error = std::current_exception();
  }
  const std::vector<std::string> errors = world.all_gather(error ? parallel::text_of(error) : "");
  if (error) std::rethrow_exception(error);
  for (size_t rank = 0; rank < errors.size(); ++rank)
    if (!errors[rank].empty())
      throw Error(fmt::format("Pipeline could not be made on rank {}: {}", rank, errors[rank]));
}

void require_same(const PipelineOptions& options, World& world) {
  const auto text = [](auto value) { return fmt::format("{}", value); };
  agree({{"PipelineOptions::stages", text(options.stages)},
         {"PipelineOptions::micro_batches", text(options.micro_batches)},
         {"PipelineOptions::schedule", options.schedule},
         {"PipelineOptions::parts_per_stage", text(options.parts_per_stage)},
         {"PipelineOptions::split", options.split},
         {"PipelineOptions::recompute", text(options.recompute)},
         {"PipelineOptions::seed", text(options.seed)}},
        [&](const std::string& facts) { return world.communicator().gather_texts(facts); });
}

void check_devices(const PipelineOptions& options, const World& world) {
  const size_t given = options.devices.size();
  const int stages = world.size() == 1 ? options.stages : 1;
  if (given > 1 && given != static_cast<size_t>(stages))
    throw BadInput(
        "PipelineOptions::devices lists {} devices, but this worker computes {}: list one for "
        "each, or one for all",
        given, plural(stages, "stage"));
}

void refuse_other_orders(World& world) {
  for (const int64_t bytes : {int64_t{1}, int64_t{1} << 20, int64_t{25} << 20})
    if (const collective::Algorithm algorithm = world.communicator().algorithm_for(bytes);
        !algorithm.is_canonical())
      throw BadInput(
          "Pipeline with the all-reduce algorithm {}: the order in which it adds depends on the "
          "number of workers, and so would the model; choose another one "
          "(WorldOptions::algorithm, --lockstep-algorithm)",
          algorithm.name());
}

void require_elements(const torch::nn::Module& model) {
  for (const auto& item : model.named_parameters())
    if (item.value().numel() == 0)
      throw BadInput(
          "Pipeline: parameter '{}' of the model has no elements: it was freed by a Pipeline of "
          "which another worker computes it, or torch::save has written such a model; make the "
          "whole model again, and save models by Pipeline::save_to",
          item.key());
}

int64_t bytes_of(const std::vector<torch::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

// Parameters, buffers and gradients. An optimizer is made later: the state is counted that Adam
// would have, which is twice the parameters.
int64_t state_of(const torch::nn::Module& module, int micro_batches) {
  const int64_t trained = bytes_of(parallel::trained_parameters(module).tensors);
  return bytes_of(module.parameters()) + bytes_of(module.buffers()) +
         (collective::depth(micro_batches) + 1 + 2) * trained;
}

// The memory of a stage's device; 0 if it has no limit, or if several stages share it.
int64_t limit_of(const SequentialModel& model, const World& world, const PipelineOptions& options) {
  if (world.size() == 1 && options.devices.size() < 2) return 0;
  std::vector<c10::Device> devices = options.devices;
  if (devices.empty()) devices.push_back(model.parameters().front().device());
  int64_t least = 0;
  for (const c10::Device device : devices) {
    const MemoryAccount* const account = virtual_devices::account_of(device);
    const int64_t limit = account == nullptr ? 0 : account->figures().limit;
    if (limit > 0) least = least == 0 ? limit : std::min(least, limit);
  }
  return least;
}

std::vector<pipeline::LayerCost> measured_on_example(const std::shared_ptr<SequentialModel>& model,
                                                     c10::Device device,
                                                     const PipelineOptions& options) {
  try {
    return parallel::measure_layers(model, parallel::moved(options.example, device),
                                    activations_of(options));
  } catch (const c10::Error& error) {
    throw BadInput(
        "PipelineOptions::example: {}; pass inputs of a micro-batch, or none: then layers are not "
        "measured",
        error.what_without_backtrace());
  }
}

// By layer, as rank 0 measures it, of which the first of a block has the block's parameters; or, if
// there is no example, with their number instead of its time.
std::vector<pipeline::LayerCost> costs_of(const std::shared_ptr<SequentialModel>& model,
                                          World& world, const PipelineOptions& options,
                                          int64_t limit, const std::vector<Range>& blocks) {
  std::vector<pipeline::LayerCost> costs(model->layers().size());
  together(world, [&] {
    if (world.rank() != 0) return;
    if (options.example.size() > 0) {
      const c10::Device device = ModelPart(model).device();
      if (limit > 0 && device.is_cpu() && cpu_account() == nullptr) limit_cpu_memory(0);
      costs = measured_on_example(model, device, options);
    }
    for (const Range block : blocks) {
      const ModelPart layers(model, block);
      pipeline::LayerCost& cost = costs[static_cast<size_t>(block.begin)];
      cost.state += state_of(layers.module(), options.micro_batches);
      if (options.example.size() > 0) continue;
      for (const torch::Tensor& each : layers.module().parameters())
        cost.seconds += static_cast<double>(each.numel());
    }
  });
  return parallel::costs_of_first(world, [&] { return costs; });
}

std::vector<Range> chosen_split(const std::shared_ptr<SequentialModel>& model, World& world,
                                const PipelineOptions& options, int parts) {
  const std::vector<Range> blocks = parallel::blocks_of(*model);
  pipeline::require_enough_blocks(blocks, parts);
  const int64_t limit =
      std::stoll(world.broadcast(fmt::format("{}", limit_of(*model, world, options))));
  const std::vector<pipeline::LayerCost> costs = costs_of(model, world, options, limit, blocks);
  const pipeline::PipelineSchedule schedule =
      make_schedule(pipeline::pipeline_schedules().at(options.schedule), shape_of(options));
  return fitted_split(costs, schedule, limit, blocks).split;
}

std::map<std::string, size_t> positions_of(const torch::nn::Module& model) {
  std::map<std::string, size_t> positions;
  for (const std::string& name : parallel::trained_parameters(model).names)
    positions.emplace(name, positions.size());
  return positions;
}

}  // namespace

PipelineOptions parallel::checked_options(const SequentialModel& model, World& world,
                                          PipelineOptions options) {
  together(world, [&] {
    check_uses(model);
    require_elements(model);
  });
  require_same(options, world);
  const pipeline::PipelineScheduleRow& row = pipeline::pipeline_schedules().at(options.schedule);
  if (options.stages == 0)
    options.stages =
        world.size() > 1 ? world.size() : std::max(static_cast<int>(options.devices.size()), 1);
  if (options.parts_per_stage == 0 || options.stages == 1)
    options.parts_per_stage = options.stages == 1 ? 1 : row.usual_parts_per_stage;
  pipeline::check(row, shape_of(options));
  if (world.size() > 1 && world.size() % options.stages != 0)
    throw BadInput(
        "PipelineOptions::stages is {}, but there are {} workers, which cannot be divided into "
        "pipelines of {}: start a multiple of {} workers, or one, which then computes all stages",
        options.stages, world.size(), plural(options.stages, "stage"), options.stages);
  together(world, [&] { check_devices(options, world); });
  if (const auto name = sync_batch_norm_of(model))
    throw BadInput(
        "Pipeline with SyncBatchNorm '{}': it would wait for workers that compute other layers; "
        "use BatchNorm, whose statistics are per micro-batch",
        *name);
  if (parallel::trained_parameters(model).size() == 0)
    throw BadInput(
        "Pipeline got a model without trained parameters, in which there is nothing to train: let "
        "some of them require gradients");
  if (world.size() > options.stages) refuse_other_orders(world);
  require_same_model(model, world.communicator());
  return options;
}

std::vector<Range> parallel::divided_layers(const std::shared_ptr<SequentialModel>& model,
                                            World& world, const PipelineOptions& options,
                                            int parts) {
  if (options.recompute) check_recomputed(*model, kOptionNames);
  if (options.split.empty()) return chosen_split(model, world, options, parts);
  std::vector<std::string> names, titles;
  for (const ModelLayer& layer : model->layers()) {
    names.push_back(layer.name);
    titles.push_back(title_of(*model, layer));
  }
  std::vector<Range> split =
      pipeline::parse_split(options.split, names, parts, kOptionNames, titles);
  check_parts(*model, split, kOptionNames);
  return split;
}

Pipeline::State::State(std::shared_ptr<torch::nn::Module> model, World world,
                       PipelineOptions options)
    : given_(std::move(model)),
      model_(parallel::sequence_of(given_)),
      world_(std::move(world)),
      options_(parallel::checked_options(*model_, world_, std::move(options))),
      grid_(world_, shape_of(options_)),
      positions_(positions_of(*model_)),
      layers_(parallel::divided_layers(model_, world_, options_, grid_.shape().parts())) {
  std::vector<parallel::StateTensor> all = parallel::parameters_of(*model_);
  for (parallel::StateTensor& buffer : parallel::buffers_of(*model_))
    all.push_back(std::move(buffer));
  if (world_.size() > 1) parallel::FlatState(std::move(all), world_.communicator()).broadcast(0);
  try {
    make_parts();
  } catch (...) {
    for (World& each : grid_.worlds()) each.abort(parallel::text_of(std::current_exception()));
    throw;
  }
  actions_ = parallel::actions_of(options_.schedule, grid_, options_.micro_batches);
  fail_stop_.emplace(worlds());
  options_.example = {};
}

// Moves the parts that this worker computes to their devices, and frees the others.
void Pipeline::State::make_parts() {
  std::vector<ModelPart> own;
  std::vector<c10::Device> devices;
  together(world_, [&] {
    const MemoryScope scope(MemoryUse::parameters);
    for (const int part : grid_.parts())
      own.emplace_back(model_, layers_[static_cast<size_t>(part)], activations_of(options_));
    release_others(*model_, own);
    for (size_t i = 0; i < own.size(); ++i) {
      if (const auto& all = options_.devices; !all.empty()) own[i].module().to(all[i % all.size()]);
      devices.push_back(own[i].device());
    }
  });
  const std::vector<parallel::PartLinks> links = link_parts(grid_, world_, devices);
  const int pipelines = grid_.pipelines();
  const auto shards =
      collective::Shards::even(static_cast<int64_t>(options_.micro_batches) * pipelines, pipelines);
  for (size_t i = 0; i < own.size(); ++i)
    parts_.push_back(std::make_unique<parallel::PipelinePart>(
        own[i], links[i], grid_.replicas(grid_.parts()[i]),
        parallel::ReplicaOptions{.shards = shards,
                                 .buffers = parallel::ReplicaOptions::BufferMode::mean_over_shards},
        [this, i](size_t parameter) { take_gradient(i, parameter); }));
  if (has_last()) loss_sum_.emplace(1, shards, parts_.back()->replica().group());
}

std::vector<World> Pipeline::State::worlds() const {
  std::vector<World> all = {world_};
  for (World& world : grid_.worlds()) all.push_back(std::move(world));
  for (const auto& part : parts_)
    for (World& world : part->links().worlds()) all.push_back(std::move(world));
  return all;
}

std::string Pipeline::State::split() const {
  return pipeline::to_text(layers_);
}

}  // namespace lockstep
