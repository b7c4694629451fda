#include "train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "lockstep/error.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPositionKey = "lockstep.position";
constexpr size_t kKept = 2;
constexpr std::string_view kFilePrefix = "step-";
constexpr std::string_view kFileEnding = ".safetensors";

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

// The step a checkpoint's file name gives. Other files in the folder are none of our business.
std::optional<int64_t> step_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kFilePrefix) || !name.ends_with(kFileEnding)) return std::nullopt;
  const char* first = name.data() + kFilePrefix.size();
  const char* last = name.data() + name.size() - kFileEnding.size();
  int64_t step = 0;
  const auto [end, error] = std::from_chars(first, last, step);
  return error == std::errc() && end == last ? std::optional(step) : std::nullopt;
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
                        {"epoch_so_far", to_json(position.epoch_so_far)},
                        {"last_epoch", to_json(position.last_epoch)},
                        {"spent", to_json(position.spent)},
                        {"data_sha256", position.data_sha256}}
      .dump();
}

Position position_from_text(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  return {.step = json.at("step"),
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

fs::path Checkpoints::save(const model::Model& model, Step& step, const Position& position) {
  fs::create_directories(folder_);
  remove_leftovers();
  std::vector<TensorView> views = model_views(model);
  for (const auto& tensor : optimizer_tensors(step))
    views.push_back({tensor.name, "F32", tensor.parameter->shape, std::as_bytes(tensor.values)});
  const fs::path path = folder_ / fmt::format("{}{:08}{}", kFilePrefix, position.step, kFileEnding);
  write_safetensors(path, views, {{"format", "pt"}, {kPositionKey, to_text(position)}});
  const auto files = newest_first();
  for (size_t i = kKept; i < files.size(); ++i) fs::remove(files[i]);
  return path;
}

std::optional<Checkpoints::Loaded> Checkpoints::load_newest(model::Model& model, Step& step) const {
  std::vector<std::string> warnings;
  for (const fs::path& path : newest_first()) {
    Safetensors file;
    try {
      file = read_safetensors(path);
    } catch (const BadInput& torn) {
      warnings.emplace_back(torn.what());
      continue;
    }
    Position position = position_from(file, path);
    const auto tensors = optimizer_tensors(step);
    for (const auto& tensor : tensors)
      require(file, path, tensor.name, "F32", tensor.parameter->shape);
    load_model(file, path, model);
    for (const auto& tensor : tensors)
      std::memcpy(tensor.values.data(), file.find(tensor.name)->bytes.data(),
                  tensor.values.size_bytes());
    return Loaded{path, position, warnings};
  }
  if (!warnings.empty())
    throw BadInput("no checkpoint is whole: {}; start anew in another folder", warnings.front());
  return std::nullopt;
}

void Checkpoints::remove_leftovers() const {
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kFilePrefix) && name.ends_with(".part")) fs::remove(entry.path());
  }
}

std::vector<fs::path> Checkpoints::newest_first() const {
  std::vector<fs::path> files;
  if (fs::exists(folder_))
    for (const auto& entry : fs::directory_iterator(folder_))
      if (step_of(entry.path())) files.push_back(entry.path());
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return *step_of(a) > *step_of(b); });
  return files;
}

}  // namespace lockstep::train
