#include "train/state.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/error.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPositionKey = "lockstep.position";

// Optimizer state beside the weights: "optimizer.momentum:conv1.weight".
constexpr std::string_view kOptimizerPrefix = "optimizer.";

std::string type_name(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat32:
      return "F32";
    case torch::kInt64:
      return "I64";
    default:
      throw Error(
          fmt::format("tensors of type {} cannot be saved", toString(tensor.scalar_type())));
  }
}

struct NamedTensor {
  std::string name;
  torch::Tensor tensor;
};

// Parameters and buffers, in the model's own order.
std::vector<NamedTensor> state_of(const model::Model& model) {
  std::vector<NamedTensor> state;
  for (const auto& item : model.named_parameters()) state.push_back({item.key(), item.value()});
  for (const auto& item : model.named_buffers()) state.push_back({item.key(), item.value()});
  return state;
}

std::span<std::byte> bytes_of(const torch::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

std::vector<TensorView> model_views(const model::Model& model) {
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : state_of(model))
    views.push_back({name, type_name(tensor), tensor.sizes().vec(), bytes_of(tensor)});
  return views;
}

struct OptimizerTensor {
  std::string name;
  const FlatParameters::Parameter* parameter;
  std::span<float> values;
};

std::vector<OptimizerTensor> optimizer_tensors(Step& step) {
  std::vector<OptimizerTensor> tensors;
  for (const auto& state : step.optimizer().state())
    for (const auto& parameter : step.parameters().parameters())
      tensors.push_back({fmt::format("{}{}:{}", kOptimizerPrefix, state.name, parameter.name),
                         &parameter,
                         state.values.subspan(parameter.begin, parameter.end - parameter.begin)});
  return tensors;
}

// Finds a tensor of this name, type and shape, or says what is there instead.
const TensorView& require(const Safetensors& file, const fs::path& path, const std::string& name,
                          const std::string& type, const std::vector<int64_t>& shape) {
  const TensorView* tensor = file.find(name);
  if (tensor == nullptr)
    throw BadInput("{}: is for another model: it has no tensor '{}'", path.string(), name);
  if (tensor->type != type || tensor->shape != shape)
    throw BadInput("{}: is for another model: tensor '{}' is {} [{}], expected {} [{}]",
                   path.string(), name, tensor->type, fmt::join(tensor->shape, ", "), type,
                   fmt::join(shape, ", "));
  return *tensor;
}

void load_model(const Safetensors& file, const fs::path& path, model::Model& model) {
  std::vector<std::pair<torch::Tensor, std::span<const std::byte>>> copies;
  std::set<std::string> known;
  for (const auto& [name, tensor] : state_of(model)) {
    const auto& found = require(file, path, name, type_name(tensor), tensor.sizes().vec());
    copies.emplace_back(tensor, found.bytes);
    known.insert(name);
  }
  for (const TensorView& tensor : file.tensors)
    if (!tensor.name.starts_with(kOptimizerPrefix) && !known.contains(tensor.name))
      throw BadInput("{}: is for another model: it has a tensor '{}' that this one has not",
                     path.string(), tensor.name);
  for (const auto& [tensor, bytes] : copies)
    std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
}

nlohmann::json to_json(const Totals& totals) {
  return {{"loss", totals.loss}, {"correct", totals.correct}, {"samples", totals.samples}};
}

Totals totals_from(const nlohmann::json& json) {
  return {.loss = json.at("loss"), .correct = json.at("correct"), .samples = json.at("samples")};
}

nlohmann::json to_json(const TimeSpent& spent) {
  return {{"total", spent.total},           {"stepping", spent.stepping},
          {"evaluation", spent.evaluation}, {"checkpoint", spent.checkpoint},
          {"spans", spent.spans.seconds},   {"samples", spent.samples}};
}

TimeSpent spent_from(const nlohmann::json& json) {
  return {.total = json.at("total"),
          .stepping = json.at("stepping"),
          .evaluation = json.at("evaluation"),
          .checkpoint = json.at("checkpoint"),
          .spans = {json.at("spans")},
          .samples = json.at("samples")};
}

Position position_from(const Safetensors& file, const fs::path& path) {
  const auto found = file.metadata.find(kPositionKey);
  if (found == file.metadata.end())
    throw BadInput("{}: holds weights only; start from it with --weights", path.string());
  try {
    return position_from_text(found->second);
  } catch (const nlohmann::json::exception& error) {
    throw BadInput("{}: its position cannot be read: {}", path.string(), error.what());
  }
}

}  // namespace

std::string to_text(const Position& position) {
  return nlohmann::json{{"step", position.step},
                        {"settled", position.settled},
                        {"epoch_so_far", to_json(position.epoch_so_far)},
                        {"last_epoch", to_json(position.last_epoch)},
                        {"spent", to_json(position.spent)},
                        {"data_sha256", position.data_sha256}}
      .dump();
}

Position position_from_text(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  return {.step = json.at("step"),
          .settled = json.value("settled", json.at("step").get<int64_t>()),
          .epoch_so_far = totals_from(json.at("epoch_so_far")),
          .last_epoch = totals_from(json.at("last_epoch")),
          .spent = spent_from(json.at("spent")),
          .data_sha256 = json.at("data_sha256")};
}

std::string model_sha256(const model::Model& model) {
  return digest(model_views(model));
}

void save_weights(const fs::path& path, const model::Model& model, const Metadata& about) {
  Metadata metadata = about;
  metadata["format"] = "pt";
  write_safetensors(path, model_views(model), metadata);
}

void load_weights(const fs::path& path, model::Model& model) {
  load_model(read_safetensors(path), path, model);
}

void capture(const model::Model& model, Step& step, const Position& position, Safetensors& into) {
  into.metadata = {{"format", "pt"}, {kPositionKey, to_text(position)}};
  into.tensors = model_views(model);
  for (const auto& tensor : optimizer_tensors(step))
    into.tensors.push_back(
        {tensor.name, "F32", tensor.parameter->shape, std::as_bytes(tensor.values)});
  size_t bytes = 0;
  for (const TensorView& tensor : into.tensors) bytes += tensor.bytes.size();
  into.storage.resize(bytes);
  std::byte* to = into.storage.data();
  for (TensorView& tensor : into.tensors) {
    std::memcpy(to, tensor.bytes.data(), tensor.bytes.size());
    tensor.bytes = {to, tensor.bytes.size()};
    to += tensor.bytes.size();
  }
}

int64_t step_of(const Safetensors& state) {
  return position_from(state, "memory").step;
}

Position restore(const Safetensors& state, const fs::path& path, model::Model& model, Step& step) {
  Position position = position_from(state, path);
  const auto tensors = optimizer_tensors(step);
  for (const auto& tensor : tensors)
    require(state, path, tensor.name, "F32", tensor.parameter->shape);
  load_model(state, path, model);
  for (const auto& tensor : tensors)
    std::memcpy(tensor.values.data(), state.find(tensor.name)->bytes.data(),
                tensor.values.size_bytes());
  return position;
}

}  // namespace lockstep::train
