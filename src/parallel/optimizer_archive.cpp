#include "parallel/optimizer_archive.h"

#include <ATen/ATen.h>
#include <torch/optim.h>
#include <torch/serialize.h>

#include <sstream>
#include <utility>

#include "lockstep/error.h"
#include "parallel/parameter_exchange.h"

namespace lockstep::parallel {
namespace {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

ArchiveValues values_in(InputArchive& archive) {
  ArchiveValues values;
  for (const std::string& key : archive.keys()) archive.read(key, values[key]);
  return values;
}

InputArchive part_of(InputArchive& archive, const std::string& key, const std::string& what) {
  InputArchive part;
  if (!archive.try_read(key, part))
    throw BadInput(
        "{} has no '{}': expected what an optimizer of torch::optim saves. (Its class must have "
        "`save` and `load`; and of workers that call ShardedOptimizer::save, only rank 0 gets an "
        "archive with something in it.)",
        what, key);
  return part;
}

int64_t number_in(InputArchive& archive, const std::string& key) {
  at::Tensor number;
  archive.read(key, number);
  return number.item<int64_t>();
}

void write_values(const ArchiveValues& values, OutputArchive& archive) {
  for (const auto& [key, value] : values) archive.write(key, value);
}

// As LibTorch's own readers need it: a number, in whatever version they are.
std::string key_of(size_t parameter) {
  return std::to_string(parameter + 1);
}

bool has_shape_of(const c10::IValue& value, const at::Tensor& parameter) {
  return value.isTensor() && value.toTensor().sizes() == parameter.sizes();
}

}  // namespace

SavedOptimizer read_optimizer(InputArchive& archive, const std::string& what) {
  InputArchive states = part_of(archive, "state", what);
  InputArchive groups = part_of(archive, "param_groups", what);
  SavedOptimizer saved;
  for (int64_t g = 0; g < number_in(groups, "param_groups/size"); ++g) {
    InputArchive group = part_of(groups, "param_groups/" + std::to_string(g), what);
    InputArchive options = part_of(group, "options", what);
    SavedOptimizer::Group& read = saved.groups.emplace_back();
    read.options = values_in(options);
    for (int64_t i = 0; i < number_in(group, "params/size"); ++i) {
      c10::IValue key;
      group.read("params/" + std::to_string(i), key);
      InputArchive state;
      const bool found = states.try_read(key.toStringRef(), state);
      read.states.push_back(found ? std::optional(values_in(state)) : std::nullopt);
    }
  }
  return saved;
}

void write_optimizer(const SavedOptimizer& saved, OutputArchive& archive) {
  const auto& unit = archive.compilation_unit();
  OutputArchive states(unit), groups(unit);
  const auto number = [](size_t value) {
    return at::scalar_tensor(static_cast<int64_t>(value), at::kLong);
  };
  groups.write("param_groups/size", number(saved.groups.size()));
  size_t parameter = 0;
  for (size_t g = 0; g < saved.groups.size(); ++g) {
    OutputArchive group(unit), options(unit);
    group.write("params/size", number(saved.groups[g].states.size()));
    for (size_t i = 0; i < saved.groups[g].states.size(); ++i, ++parameter) {
      group.write("params/" + std::to_string(i), c10::IValue(key_of(parameter)));
      if (!saved.groups[g].states[i]) continue;
      OutputArchive state(unit);
      write_values(*saved.groups[g].states[i], state);
      states.write(key_of(parameter), state);
    }
    write_values(saved.groups[g].options, options);
    group.write("options", options);
    groups.write("param_groups/" + std::to_string(g), group);
  }
  archive.write("pytorch_version", c10::IValue("1.5.0"));
  archive.write("state", states);
  archive.write("param_groups", groups);
}

std::string bytes_of(const torch::optim::Optimizer& optimizer) {
  OutputArchive archive;
  optimizer.save(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  return std::move(stream).str();
}

SavedOptimizer optimizer_of(const std::string& bytes, const std::string& what) {
  InputArchive archive;
  archive.load_from(bytes.data(), bytes.size(), at::Device(at::kCPU));
  return read_optimizer(archive, what);
}

void load_optimizer(const SavedOptimizer& saved, torch::optim::Optimizer& optimizer) {
  OutputArchive written;
  write_optimizer(saved, written);
  std::stringstream stream;
  written.save_to(stream);
  InputArchive archive;
  archive.load_from(stream);
  optimizer.load(archive);
}

ArchiveValues values_of(const torch::optim::OptimizerOptions& options) {
  OutputArchive written;
  try {
    options.serialize(written);
  } catch (const c10::Error&) {
    return {};
  }
  std::stringstream stream;
  written.save_to(stream);
  InputArchive archive;
  archive.load_from(stream);
  return values_in(archive);
}

void join_state(const ArchiveValues& of_piece, Range piece, const at::Tensor& parameter,
                std::optional<ArchiveValues>& whole) {
  if (!whole) whole.emplace();
  for (const auto& [key, value] : of_piece) {
    const bool is_part =
        value.isTensor() && value.toTensor().sizes() == at::IntArrayRef{piece.size()};
    const auto [joined, is_first] = whole->try_emplace(key, value);
    if (!is_part) continue;
    const at::Tensor part = value.toTensor();
    if (is_first)
      joined->second = at::empty_strided(parameter.sizes(), parameter.strides(),
                                         part.options().device(at::kCPU));
    elements_of(joined->second.toTensor(), piece).copy_(part);
  }
}

ArchiveValues cut_state(const ArchiveValues& whole, Range piece, const at::Tensor& parameter) {
  ArchiveValues cut = whole;
  for (auto& [key, value] : cut) {
    if (!has_shape_of(value, parameter)) continue;
    const at::Tensor saved = value.toTensor();
    const at::Tensor in_order =
        at::empty_strided(parameter.sizes(), parameter.strides(), saved.options());
    in_order.copy_(saved);
    value = elements_of(in_order, piece).clone();
  }
  return cut;
}

namespace {

std::vector<at::Tensor*> tensors_of(torch::optim::OptimizerParamState& state) {
  if (auto* const sgd = dynamic_cast<torch::optim::SGDParamState*>(&state))
    return {&sgd->momentum_buffer()};
  if (auto* const adam = dynamic_cast<torch::optim::AdamParamState*>(&state))
    return {&adam->exp_avg(), &adam->exp_avg_sq(), &adam->max_exp_avg_sq()};
  if (auto* const adamw = dynamic_cast<torch::optim::AdamWParamState*>(&state))
    return {&adamw->exp_avg(), &adamw->exp_avg_sq(), &adamw->max_exp_avg_sq()};
  if (auto* const rmsprop = dynamic_cast<torch::optim::RMSpropParamState*>(&state))
    return {&rmsprop->square_avg(), &rmsprop->momentum_buffer(), &rmsprop->grad_avg()};
  if (auto* const adagrad = dynamic_cast<torch::optim::AdagradParamState*>(&state))
    return {&adagrad->sum()};
  throw BadInput(
      "ShardedOptimizer::load: the state of an optimizer of your own can be loaded only where its "
      "parameters are on the CPU");
}

}  // namespace

void move_state_to(at::Device device, torch::optim::Optimizer& optimizer) {
  for (auto& item : optimizer.state())
    for (at::Tensor* const tensor : tensors_of(*item.second))
      if (tensor->defined()) *tensor = tensor->to(device);
}

}  // namespace lockstep::parallel
