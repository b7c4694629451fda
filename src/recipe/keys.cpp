#include "recipe/keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "device/kinds.h"

namespace lockstep {
namespace {

constexpr double kMany = 1e12;
constexpr double kLargestSeed = 9007199254740992;  // the range is kept as a double, exact to here
constexpr Key::Role kResult = Key::Role::result;
constexpr Key::Role kRecord = Key::Role::record;

std::string either(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
  return text;
}

// Marks keys that only some rows of the table use: with other rows they have no effect.
template <typename Row>
std::vector<Key> used_by_rows(std::vector<Key> keys, const Table<Row>& table,
                              const std::string& choice) {
  for (Key& key : keys) {
    std::vector<std::string> users;
    for (const auto& row : table)
      if (std::find(row->uses.begin(), row->uses.end(), key.last()) != row->uses.end())
        users.push_back(row->name);
    if (!users.empty() && users.size() < table.names().size()) key.use = {&choice, users};
  }
  return keys;
}

std::vector<Key> data_keys(Recipe& r) {
  return {
      {"data.name", &r.data.name, "data set: see `lockstep list datasets`"},
      {"data.test_fraction", &r.data.hold_out.test_fraction,
       "fraction of the samples held out as test split if the data set has none", 0.001, 0.9},
      {"data.validation_fraction", &r.data.hold_out.validation_fraction,
       "fraction of the training samples held out as validation split if the data set has none; "
       "0: none",
       0, 0.9},
      {"data.hold_out_seed", &r.data.hold_out.seed, "seed that selects the held-out samples", 0,
       kLargestSeed},
      {"data.flip", &r.data.augment.flip, "mirror training images left-right with probability 0.5"},
      {"data.shift", &r.data.augment.shift,
       "shift training images by up to this many pixels in each direction: a random crop", 0, 1024},
      {"data.fill", &r.data.augment.fill,
       "what shifted images are filled with: " + either(data::fill_names()), 0, 0, kResult,
       data::fill_names()},
      {"data.cutout", &r.data.augment.cutout,
       "set a random square of this side to 0 in training images; 0: none", 0, 4096},
      {"data.mixup", &r.data.mixup,
       "mix each training sample with another; shares are drawn from Beta(mixup, mixup); 0: none",
       0, 1},
      {"data.normalize", &r.data.normalize,
       "normalize every channel to mean 0 and deviation 1, measured on the training split"},
  };
}

std::vector<Key> model_keys(Recipe& r) {
  return {
      {"model.name", &r.model.name, "model: see `lockstep list models`"},
      {"model.weights", &r.model.weights,
       "initial weights (safetensors file) instead of random ones"},
      {"model.weights_partial", &r.model.weights_partial,
       "take only those of model.weights that fit by name and shape, as for another number of "
       "classes"},

      {"objective.name", &r.objective.name, "loss and metrics: see `lockstep list objectives`"},
  };
}

std::vector<Key> train_keys(Recipe& r) {
  const std::vector<std::string> kernels = {"fused", "torch"};
  const std::vector<std::string> precisions = {"fp32", "bf16"};
  const std::vector<std::string> compressions = {"none", "f16", "bf16", "power_sgd"};
  return {
      {"train.batch", &r.train.batch, "samples per step, over all workers", 1, kMany},
      {"train.shards", &r.train.shards,
       "equal parts of a batch; a worker computes one or more; 0: the largest divisor up to 8", 0,
       65536},
      {"train.accumulate", &r.train.accumulate,
       "compute each shard in this many pieces, one after another, to use less memory", 1, 65536},
      {"train.epochs", &r.train.epochs, "passes over the training split", 1, 1e6},
      {"train.steps", &r.train.steps, "end after this many steps; 0: after train.epochs", 0, kMany},
      {"train.best_by", &r.train.best_by,
       "figure of the validation split (or else the test split) that tells which epoch is best: "
       "loss, or a metric"},
      {"train.patience", &r.train.patience,
       "end after this many epochs in a row that are not better than the best; 0: do not", 0, 1e6},
      {"train.seed", &r.train.seed, "seed of all random numbers", 0, kLargestSeed},
      {"train.threads", &r.train.threads,
       "compute threads per worker; another number rounds differently", 1, 256},
      {"train.kernels", &r.train.kernels,
       "fused: Lockstep's kernels where they support a layer; torch: LibTorch's; they round "
       "differently",
       0, 0, kResult, kernels},
      {"train.precision", &r.train.precision,
       "fp32; bf16: products and convolutions compute in bfloat16, by LibTorch's kernels, and "
       "activations take half the memory; parameters, gradients and losses stay float32",
       0, 0, kResult, precisions},
      {"train.compress", &r.train.compress,
       "send gradients as f16, bf16 or low-rank matrices (power_sgd); none: uncompressed", 0, 0,
       kResult, compressions},
      {"train.compress_rank",
       &r.train.compress_rank,
       "rank of the matrices; higher is more exact",
       1,
       65536,
       kResult,
       {},
       {&r.train.compress, {"power_sgd"}}},
      {"train.drop_last", &r.train.drop_last,
       "drop an epoch's last batch if it is smaller than the others"},
  };
}

std::vector<Key> optimizer_keys(Recipe& r) {
  const std::vector<std::string> names = optim::optimizers().names();
  return {
      {"optimizer.name", &r.optimizer.name, either(names), 0, 0, kResult, names},
      {"optimizer.lr", &r.optimizer.lr, "highest learning rate of the schedule", 0, 1e6},
      {"optimizer.scale_lr_by_workers", &r.optimizer.scale_lr_by_workers,
       "multiply lr by the world size; the result then depends on it"},
      {"optimizer.weight_decay", &r.optimizer.weight_decay, "coefficient of weight decay", 0, 1e6},
      {"optimizer.decay_bias_and_norm", &r.optimizer.decay_bias_and_norm,
       "apply weight decay to biases and BatchNorm too"},
      {"optimizer.clip_norm", &r.optimizer.clip_norm,
       "clip the norm of all gradients to this; 0: no clipping", 0, kMany},
      {"optimizer.momentum", &r.optimizer.momentum, "coefficient of momentum", 0, 0.999999},
      {"optimizer.trust", &r.optimizer.trust,
       "trust coefficient: step size of a layer relative to its weights", 1e-12, 1e6},
      {"optimizer.nesterov", &r.optimizer.nesterov, "use Nesterov momentum"},
      {"optimizer.beta1", &r.optimizer.beta1, "decay of the moving average of the gradient", 0,
       0.999999},
      {"optimizer.beta2", &r.optimizer.beta2, "decay of the moving average of the squared gradient",
       0, 0.999999},
      {"optimizer.epsilon", &r.optimizer.epsilon,
       "added to the denominator, for numerical stability", 1e-30, 1},
  };
}

std::vector<Key> schedule_keys(Recipe& r) {
  const std::vector<std::string> names = optim::schedules().names();
  return {
      {"schedule.name", &r.schedule.name, either(names), 0, 0, kResult, names},
      {"schedule.warmup_epochs", &r.schedule.warmup_epochs, "linear warm-up over this many epochs",
       0, kMany},
      {"schedule.milestones", &r.schedule.milestones, "epochs at which the learning rate drops", 0,
       kMany},
      {"schedule.gamma", &r.schedule.gamma, "factor of the learning rate at each milestone", 0,
       1e6},
      {"schedule.final_fraction", &r.schedule.final_fraction,
       "final learning rate, as a fraction of optimizer.lr", 0, 1},
  };
}

std::vector<Key> device_keys(Recipe& r) {
  const std::vector<std::string> kinds = device_kinds().names();
  return {
      {"device.kind", &r.device.kind,
       either(kinds) + ": see `lockstep list devices`; cpu and virtual give the same bits with "
                       "train.kernels = \"torch\"",
       0, 0, kResult, kinds},
      {"device.memory", &r.device.memory,
       "memory of a device, such as 8GiB, for all kinds but cuda; empty: no limit", 0, 0, kRecord},
      {"device.asynchronous", &r.device.asynchronous,
       "whether virtual devices compute in threads of their own while the worker goes on, as GPUs "
       "do; the same result",
       0, 0, kRecord},
  };
}

// None of them changes the result.
std::vector<Key> parallel_keys(Recipe& r) {
  const std::vector<std::string> schedules = pipeline::pipeline_schedules().names();
  const std::vector<std::string> modes = {"ddp", "dp", "pipeline"};
  return {
      {"parallel.mode", &r.parallel.mode,
       "ddp: every worker has a device, and the model or a stage of it; dp: one worker has several "
       "devices, each with the whole model; pipeline: with parallel.stages",
       0, 0, kRecord, modes},
      {"parallel.stages", &r.parallel.stages,
       "devices that compute one after another, each a part of the model; shards are their "
       "micro-batches; 1: every worker has the whole model",
       1, pipeline::kMostStages, kRecord},
      {"parallel.schedule", &r.parallel.schedule,
       either(schedules) + ": in which order stages compute micro-batches; see `lockstep explain "
                           "pipeline`",
       0, 0, kRecord, schedules},
      {"parallel.parts_per_stage", &r.parallel.parts_per_stage,
       "parts of the model that a stage computes; 0: as usual with the schedule", 0,
       pipeline::kMostPartsPerStage, kRecord},
      {"parallel.split", &r.parallel.split,
       "where the model is divided: the layers with which parts begin but the first, as numbers or "
       "names (\"3,7,9\"); empty: so that parts take equally long",
       0, 0, kRecord},
      {"parallel.recompute", &r.parallel.recompute,
       "keep only the inputs of layers, and compute the rest again in the backward pass: less "
       "memory, more time",
       0, 0, kRecord},
      {"parallel.zero", &r.parallel.zero,
       "divide the optimizer's state among the workers that train the same part of the model "
       "(ZeRO, stage 1): less memory",
       0, 0, kRecord},
  };
}

std::vector<Key> evaluate_keys(Recipe& r) {
  return {
      {"evaluate.batch", &r.evaluate.batch,
       "samples that the model computes at once in evaluation; fewer if device.memory does not "
       "admit them; another number may round differently",
       1, kMany},
  };
}

std::vector<Key> record_keys(Recipe& r) {
  return {
      {"checkpoint.every_steps", &r.checkpoint.every_steps,
       "steps between checkpoints; 0: one after every epoch", 0, kMany, kRecord},
      {.name = "checkpoint.keep",
       .target = &r.checkpoint.keep,
       .meaning =
           "how many of the newest checkpoints to keep; last: 1; best: 2, and the weights of "
           "the best epoch as best.safetensors",
       .least = 1,
       .most = 1e6,
       .role = kRecord,
       .choices = {"best", "last"},
       .number_too = true},
      {"log.every_steps", &r.log.every_steps, "steps between step events", 1, kMany, kRecord},
      {"log.digest_every_steps", &r.log.digest_every_steps,
       "steps between digests of all tensors, for `lockstep compare`; 0: none", 0, kMany, kRecord},
  };
}

}  // namespace

std::vector<Key> keys(Recipe& recipe) {
  std::vector<Key> all;
  for (const std::vector<Key>& part :
       {data_keys(recipe), model_keys(recipe), train_keys(recipe),
        used_by_rows(optimizer_keys(recipe), optim::optimizers(), recipe.optimizer.name),
        used_by_rows(schedule_keys(recipe), optim::schedules(), recipe.schedule.name),
        device_keys(recipe), parallel_keys(recipe), evaluate_keys(recipe), record_keys(recipe)})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::string value_text(const Key& key) {
  return std::visit([](auto* target) { return toml_text(*target); }, key.target);
}

std::vector<OptionTable> option_tables(Recipe& recipe) {
  return {{"data.options", "a data set", &recipe.data.options},
          {"model.options", "a model", &recipe.model.options},
          {"objective.options", "an objective", &recipe.objective.options}};
}

}  // namespace lockstep
