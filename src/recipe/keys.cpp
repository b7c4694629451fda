#include "recipe/keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

constexpr double kMany = 1e12;
constexpr double kLargestSeed = 9007199254740992;  // the range is kept as a double, exact to here
constexpr Key::Role kResult = Key::Role::result;

std::string text(bool value) {
  return value ? "true" : "false";
}
std::string text(int64_t value) {
  return std::to_string(value);
}
// JSON's escapes are TOML's too, but for one character.
std::string text(const std::string& value) {
  std::string quoted;
  for (const char c :
       nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))
    quoted += c == '\x7f' ? std::string("\\u007f") : std::string(1, c);
  return quoted;
}
std::string text(data::Layout value) {
  return text(layout_names()[static_cast<size_t>(value)]);
}

// Enough digits to read back the same number, and always a TOML float.
std::string text(double value) {
  std::string digits = fmt::format("{}", value);
  return digits.find_first_of(".en") == std::string::npos ? digits + ".0" : digits;
}

std::string text(const std::vector<double>& values) {
  std::vector<std::string> parts;
  parts.reserve(values.size());
  for (const double value : values) parts.push_back(text(value));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace

const std::vector<std::string>& layout_names() {
  static const std::vector<std::string> names = {"channels_first", "channels_last"};
  return names;
}

std::string value_text(const Key& key) {
  return std::visit([](auto* target) { return text(*target); }, key.target);
}

std::vector<Key> keys(Recipe& r) {
  return {
      {"data.name", &r.data.source.name, "fashion-mnist, mnist, cifar10, npy:DIR or folder:DIR"},
      {"data.test_fraction", &r.data.source.test_fraction,
       "share held out as the test split where the source has none", 0.001, 0.9},
      {"data.hold_out_seed", &r.data.source.hold_out_seed, "chooses the held-out samples", 0,
       kLargestSeed},
      {"data.layout", &r.data.source.layout,
       "npy: channels_first (N,C,H,W) or channels_last (N,H,W,C)"},
      {"data.image_size", &r.data.source.image_size,
       "folder: scale and crop to this square; 0 takes images as they are", 0, 4096},
      {"data.flip", &r.data.augment.flip, "mirror half of the training images"},
      {"data.shift", &r.data.augment.shift, "move training images by up to this many pixels", 0,
       1024},
      {"data.normalize", &r.data.normalize,
       "give every channel mean 0 and deviation 1, measured on the training split"},

      {"model.name", &r.model.name,
       "convnet, mlp, logistic, resnet18, resnet20, resnet32, resnet44, resnet56 or resnet110"},
      {"model.zero_gamma", &r.model.zero_gamma,
       "residual nets: start each block's last BatchNorm at zero"},
      {"model.weights", &r.model.weights,
       "start from this safetensors file instead of random weights"},

      {"train.batch", &r.train.batch, "samples a step", 1, kMany},
      {"train.shards", &r.train.shards,
       "equal slices of a batch, of which a worker computes one or more; 0: up to 8", 0, 65536},
      {"train.epochs", &r.train.epochs, "passes over the training split", 1, 1e6},
      {"train.steps", &r.train.steps, "end after this many steps instead; 0 goes by epochs", 0,
       kMany},
      {"train.seed", &r.train.seed, "every random number follows from this", 0, kLargestSeed},
      {"train.threads", &r.train.threads,
       "threads a worker computes with; another number rounds differently", 1, 256},
      {"train.kernels",
       &r.train.kernels,
       "fused: our own where they serve a layer; torch: LibTorch's; they round differently",
       0,
       0,
       kResult,
       {"fused", "torch"}},
      {"train.label_smoothing", &r.train.label_smoothing, "share of the target spread evenly", 0,
       0.999},
      {"train.drop_last", &r.train.drop_last, "drop an epoch's last batch when it is smaller"},

      {"optimizer.name", &r.optimizer.name, "sgd, adamw or lars", 0, 0, kResult,
       optim::optimizer_names()},
      {"optimizer.lr", &r.optimizer.lr, "the schedule's highest learning rate", 0, 1e6},
      {"optimizer.scale_lr_by_workers", &r.optimizer.scale_lr_by_workers,
       "multiply lr by the number of workers; the result then depends on it"},
      {"optimizer.weight_decay", &r.optimizer.weight_decay,
       "how strongly weights are pulled towards zero", 0, 1e6},
      {"optimizer.decay_bias_and_norm", &r.optimizer.decay_bias_and_norm,
       "whether biases and BatchNorm decay too"},
      {"optimizer.momentum", &r.optimizer.momentum,
       "sgd, lars: how much of the last direction is kept", 0, 0.999999},
      {"optimizer.trust", &r.optimizer.trust,
       "lars: how far a layer moves, relative to its weights", 1e-12, 1e6},
      {"optimizer.nesterov", &r.optimizer.nesterov, "sgd, lars: look ahead along the momentum"},
      {"optimizer.beta1", &r.optimizer.beta1, "adamw: how slowly the mean gradient moves", 0,
       0.999999},
      {"optimizer.beta2", &r.optimizer.beta2, "adamw: how slowly the mean squared gradient moves",
       0, 0.999999},
      {"optimizer.epsilon", &r.optimizer.epsilon, "adamw: keeps the division from blowing up",
       1e-30, 1},

      {"schedule.name", &r.schedule.name, "constant, step, cosine or one_cycle", 0, 0, kResult,
       optim::schedule_names()},
      {"schedule.warmup_epochs", &r.schedule.warmup_epochs,
       "rise in a straight line over this many epochs (not one_cycle)", 0, kMany},
      {"schedule.milestones", &r.schedule.milestones, "step: epochs at which the rate drops", 0,
       kMany},
      {"schedule.gamma", &r.schedule.gamma, "step: times this at each milestone", 0, 1e6},
      {"schedule.final_fraction", &r.schedule.final_fraction,
       "cosine: end at this share of optimizer.lr", 0, 1},

      {"checkpoint.every_steps", &r.checkpoint.every_steps,
       "write a checkpoint this often; 0: after every epoch", 0, kMany, Key::Role::record},
      {"log.every_steps", &r.log.every_steps, "write a step event this often", 1, kMany,
       Key::Role::record},
      {"log.digest_every_steps", &r.log.digest_every_steps,
       "write digests of all tensors this often, for `lockstep compare`; 0: never", 0, kMany,
       Key::Role::record},
  };
}

}  // namespace lockstep
