#include "train/state.h"

#include <fmt/ranges.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/error.h"
#include "run/events.h"

namespace lockstep::train {

using run::Metadata;
using run::Safetensors;
using run::TensorView;

namespace {

namespace fs = std::filesystem;

constexpr const char* kResumeKey = "lockstep.position";

// The names of optimizer state begin with this: "optimizer.momentum:conv1.weight".
constexpr std::string_view kOptimizerPrefix = "optimizer.";

// Safetensors' names of types.
constexpr std::pair<torch::ScalarType, const char*> kTypeNames[] = {
    {torch::kFloat32, "F32"},   {torch::kFloat64, "F64"}, {torch::kFloat16, "F16"},
    {torch::kBFloat16, "BF16"}, {torch::kInt64, "I64"},   {torch::kInt32, "I32"},
    {torch::kInt16, "I16"},     {torch::kInt8, "I8"},     {torch::kUInt8, "U8"},
    {torch::kBool, "BOOL"}};

std::string type_name(const torch::Tensor& tensor) {
  for (const auto& [type, name] : kTypeNames)
    if (type == tensor.scalar_type()) return name;
  throw Error(fmt::format("tensors of type {} cannot be saved", toString(tensor.scalar_type())));
}

struct NamedTensor {
  std::string name;
  torch::Tensor tensor;
};

// Parameters and buffers, in the model's own order.
std::vector<NamedTensor> tensors_of(const Model& model) {
  std::vector<NamedTensor> state;
  for (const auto& item : model.named_parameters()) state.push_back({item.key(), item.value()});
  for (const auto& item : model.named_buffers()) state.push_back({item.key(), item.value()});
  return state;
}

// A model's tensors in host memory: copies of those that are elsewhere.
class HostState {
 public:
  explicit HostState(const Model& model) : tensors_(tensors_of(model)) {
    for (NamedTensor& named : tensors_) {
      named.tensor = named.tensor.detach().cpu();
      const torch::Tensor& tensor = named.tensor;
      views_.push_back({named.name,
                        type_name(tensor),
                        tensor.sizes().vec(),
                        {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()}});
    }
  }
  const std::vector<TensorView>& views() const { return views_; }

 private:
  std::vector<NamedTensor> tensors_;
  std::vector<TensorView> views_;
};

void set_bytes(const torch::Tensor& tensor, std::span<const std::byte> bytes) {
  const bool on_host = tensor.device().is_cpu();
  const torch::Tensor host =
      on_host ? tensor : torch::empty(tensor.sizes(), torch::TensorOptions(tensor.scalar_type()));
  std::memcpy(host.data_ptr(), bytes.data(), bytes.size());
  if (!on_host) tensor.variable_data().copy_(host);
}

struct OptimizerTensor {
  std::string name;
  const parallel::FlatParameters::Parameter* parameter;
  std::span<float> values;
};

std::vector<OptimizerTensor> optimizer_tensors(Step& step) {
  std::vector<OptimizerTensor> tensors;
  for (const auto& state : step.optimizer().state())
    for (const auto& parameter : step.replica().flat_parameters().parameters())
      tensors.push_back({fmt::format("{}{}:{}", kOptimizerPrefix, state.name, parameter.name),
                         &parameter,
                         state.values.subspan(parameter.begin, parameter.end - parameter.begin)});
  return tensors;
}

// Why a file's tensor cannot be the model's tensor of this name; empty: it can.
std::string misfit(const TensorView* found, const std::string& name, const std::string& type,
                   const std::vector<int64_t>& shape) {
  if (found == nullptr) return fmt::format("it has no tensor '{}'", name);
  if (found->type == type && found->shape == shape) return {};
  return fmt::format("tensor '{}' is {} [{}], expected {} [{}]", name, found->type,
                     fmt::join(found->shape, ", "), type, fmt::join(shape, ", "));
}

void require(const Safetensors& file, const fs::path& path, const std::string& name,
             const std::string& type, const std::vector<int64_t>& shape) {
  if (const std::string why = misfit(file.find(name), name, type, shape); !why.empty())
    throw BadInput("{}: is for another model: {}", path.string(), why);
}

run::Json to_json(const TimeSpent& spent) {
  return {{"total", spent.total},           {"stepping", spent.stepping},
          {"evaluation", spent.evaluation}, {"checkpoint", spent.checkpoint},
          {"spans", spent.spans.seconds},   {"samples", spent.samples}};
}

TimeSpent spent_from(const run::Json& json) {
  return {.total = json.at("total"),
          .stepping = json.at("stepping"),
          .evaluation = json.at("evaluation"),
          .checkpoint = json.at("checkpoint"),
          .spans = {json.at("spans")},
          .samples = json.at("samples")};
}

ResumePoint resume_point_of(const Safetensors& file, const fs::path& path) {
  const auto found = file.metadata.find(kResumeKey);
  if (found == file.metadata.end())
    throw BadInput("{}: contains weights only and cannot be resumed; start from it with --weights",
                   path.string());
  try {
    return resume_point_from(found->second);
  } catch (const run::Json::exception& error) {
    throw BadInput(
        "{}: its position in the run cannot be read ({}); another version of Lockstep wrote it",
        path.string(), error.what());
  }
}

}  // namespace

std::string to_text(const ResumePoint& point) {
  return run::Json{{"step", point.step},
                   {"settled", point.settled},
                   {"epoch_so_far", objective::to_json(point.epoch_so_far)},
                   {"last_epoch", objective::to_json(point.last_epoch)},
                   {"spent", to_json(point.spent)},
                   {"data_sha256", point.data_sha256},
                   {"best", to_json(point.best)}}
      .dump();
}

ResumePoint resume_point_from(const std::string& text) {
  const auto json = run::Json::parse(text);
  return {.step = json.at("step"),
          .settled = json.value("settled", json.at("step").get<int64_t>()),
          .epoch_so_far = objective::totals_from(json.at("epoch_so_far")),
          .last_epoch = objective::totals_from(json.at("last_epoch")),
          .spent = spent_from(json.at("spent")),
          .data_sha256 = json.at("data_sha256"),
          .best = json.contains("best") ? best_from(json.at("best")) : Best()};
}

std::string model_sha256(const Model& model) {
  return run::digest(HostState(model).views());
}

void save_weights(const fs::path& path, const Model& model, const Metadata& about) {
  Metadata metadata = about;
  metadata["format"] = "pt";
  run::write_safetensors(path, HostState(model).views(), metadata);
}

std::vector<std::string> load_weights(const Safetensors& file, const fs::path& path, Model& model,
                                      Weights which) {
  std::vector<std::pair<torch::Tensor, std::span<const std::byte>>> copies;
  std::vector<std::string> left;
  std::set<std::string> known;
  for (const auto& [name, tensor] : tensors_of(model)) {
    const TensorView* const found = file.find(name);
    const std::string why = misfit(found, name, type_name(tensor), tensor.sizes().vec());
    if (why.empty())
      copies.emplace_back(tensor, found->bytes);
    else
      left.push_back(why);
    known.insert(name);
  }
  for (const TensorView& tensor : file.tensors)
    if (!tensor.name.starts_with(kOptimizerPrefix) && !known.contains(tensor.name))
      left.push_back(fmt::format("its tensor '{}' is not in this model", tensor.name));
  if (which == Weights::all && !left.empty())
    throw BadInput("{}: is for another model: {}", path.string(), left.front());
  if (copies.empty())
    throw BadInput("{}: no tensor fits this model: {}", path.string(),
                   left.empty() ? "it has none" : left.front());
  for (const auto& [tensor, bytes] : copies) set_bytes(tensor, bytes);
  return left;
}

void capture(const Model& model, Step& step, const ResumePoint& point, Metadata about,
             Safetensors& into) {
  into.metadata = std::move(about);
  into.metadata["format"] = "pt";
  into.metadata[kResumeKey] = to_text(point);
  const HostState state(model);
  into.tensors = state.views();
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
  return resume_point_of(state, "memory").step;
}

ResumePoint restore(const Safetensors& state, const fs::path& path, Model& model, Step& step) {
  ResumePoint point = resume_point_of(state, path);
  const auto tensors = optimizer_tensors(step);
  for (const auto& tensor : tensors)
    require(state, path, tensor.name, "F32", tensor.parameter->shape);
  load_weights(state, path, model);
  for (const auto& tensor : tensors)
    std::memcpy(tensor.values.data(), state.find(tensor.name)->bytes.data(),
                tensor.values.size_bytes());
  return point;
}

std::vector<parallel::StateTensor> state_tensors(const Model& model, Step& step) {
  std::vector<parallel::StateTensor> all;
  for (const auto& [name, tensor] : tensors_of(model)) all.push_back({name, tensor});
  for (const auto& tensor : optimizer_tensors(step))
    all.push_back({tensor.name, torch::from_blob(tensor.values.data(),
                                                 {static_cast<int64_t>(tensor.values.size())},
                                                 torch::kFloat32)});
  return all;
}

}  // namespace lockstep::train
