#include "train/state.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "base/range.h"
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
std::vector<NamedTensor> tensors_of(const torch::nn::Module& model) {
  std::vector<NamedTensor> state;
  for (const auto& item : model.named_parameters()) state.push_back({item.key(), item.value()});
  for (const auto& item : model.named_buffers()) state.push_back({item.key(), item.value()});
  return state;
}

// Of the parts that this worker trains.
std::vector<NamedTensor> tensors_of(const Step& step) {
  std::vector<NamedTensor> state;
  for (const auto& part : step.trained())
    for (NamedTensor& each : tensors_of(part->part().module())) state.push_back(std::move(each));
  return state;
}

TensorView view_of(const std::string& name, const torch::Tensor& tensor) {
  return {name,
          type_name(tensor),
          tensor.sizes().vec(),
          {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()}};
}

void set_bytes(const torch::Tensor& tensor, std::span<const std::byte> bytes) {
  const bool on_host = tensor.device().is_cpu();
  const torch::Tensor host =
      on_host ? tensor : torch::empty(tensor.sizes(), torch::TensorOptions(tensor.scalar_type()));
  std::memcpy(host.data_ptr(), bytes.data(), bytes.size());
  if (!on_host) tensor.variable_data().copy_(host);
}

using FlatParameter = parallel::FlatParameters::Parameter;

std::string optimizer_tensor_name(const std::string& state, const FlatParameter& parameter) {
  return fmt::format("{}{}:{}", kOptimizerPrefix, state, parameter.name);
}

// What the optimizer keeps for a parameter, and which elements of it this worker has, in place.
struct OptimizerTensor {
  struct Piece {
    int64_t begin;
    std::span<float> values;
  };
  std::string name;
  const FlatParameter* parameter;
  std::vector<Piece> pieces;
};

OptimizerTensor optimizer_tensor(const std::string& state, const FlatParameter& parameter,
                                 const std::vector<parallel::FlatOptimizer::Piece>& kept) {
  OptimizerTensor tensor{optimizer_tensor_name(state, parameter), &parameter, {}};
  for (const auto& [name, range, values] : kept) {
    const Range met = {std::max(range.begin, parameter.begin), std::min(range.end, parameter.end)};
    if (name == state && !met.empty())
      tensor.pieces.push_back(
          {met.begin - parameter.begin, values.subspan(met.begin - range.begin, met.size())});
  }
  return tensor;
}

std::vector<OptimizerTensor> optimizer_tensors(Step& step) {
  std::vector<OptimizerTensor> tensors;
  for (const auto& part : step.trained()) {
    const auto kept = part->optimizer().state();
    for (const std::string& state : part->optimizer().state_names())
      for (const FlatParameter& parameter : part->replica().flat_parameters().parameters())
        tensors.push_back(optimizer_tensor(state, parameter, kept));
  }
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

CollectedState::CollectedState(const Model& model) {
  for (const NamedTensor& each : tensors_of(model)) {
    tensors_.push_back(each.tensor.detach().cpu());
    model_.push_back(view_of(each.name, tensors_.back()));
  }
}

CollectedState::CollectedState(const Model& model, Step& step, Content content) {
  for (const NamedTensor& each : tensors_of(step)) {
    tensors_.push_back(each.tensor.detach().cpu());
    model_.push_back(view_of(each.name, tensors_.back()));
  }
  if (content == Content::everything)
    for (const auto& part : step.trained()) collect_optimizer(*part);
  if (step.trained().size() > 1 || !step.grid().is_whole()) collect(model, step.grid());
}

void CollectedState::collect_optimizer(TrainedPart& part) {
  for (auto& state : part.optimizer().collected()) {
    if (state.values.empty()) continue;
    for (const FlatParameter& parameter : part.replica().flat_parameters().parameters())
      optimizer_.push_back(
          {optimizer_tensor_name(state.name, parameter), "F32", parameter.shape,
           std::as_bytes(state.values.subspan(parameter.begin, parameter.end - parameter.begin))});
    states_.push_back(std::move(state));
  }
}

// Takes the tensors of other stages, and sorts all as the model has them.
void CollectedState::collect(const Model& model, parallel::Grid& grid) {
  if (!grid.is_whole()) take_from_stages(grid);
  std::map<std::string, size_t> order;
  for (const NamedTensor& each : tensors_of(model)) order.emplace(each.name, order.size());
  std::ranges::sort(model_, {}, [&](const TensorView& each) { return order[each.name]; });
}

void CollectedState::take_from_stages(parallel::Grid& grid) {
  std::vector<TensorView> own = std::exchange(model_, {});
  for (TensorView& each : std::exchange(optimizer_, {})) own.push_back(std::move(each));
  if (grid.pipeline() > 0) return;
  std::vector<std::string> headers;
  std::vector<std::byte> bytes;
  for (const TensorView& each : own) {
    headers.push_back(run::Json{each.name, each.type, each.shape, each.bytes.size()}.dump());
    bytes.insert(bytes.end(), each.bytes.begin(), each.bytes.end());
  }
  headers = grid.gathered(std::move(headers));
  received_ = grid.joined_on_first(std::move(bytes));
  if (received_.empty()) return;
  const std::byte* begin = received_.data();
  for (const std::string& text : headers) {
    const auto header = run::Json::parse(text);
    TensorView tensor{header[0], header[1], header[2], {begin, header[3].get<size_t>()}};
    begin += tensor.bytes.size();
    (tensor.name.starts_with(kOptimizerPrefix) ? optimizer_ : model_).push_back(std::move(tensor));
  }
}

std::string model_sha256(const CollectedState& state) {
  return run::digest(state.model());
}

void save_weights(const fs::path& path, std::span<const TensorView> model, const Metadata& about) {
  Metadata metadata = about;
  metadata["format"] = "pt";
  run::write_safetensors(path, model, metadata);
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

void capture(const CollectedState& state, const ResumePoint& point, Metadata about,
             Safetensors& into) {
  into.metadata = std::move(about);
  into.metadata["format"] = "pt";
  into.metadata[kResumeKey] = to_text(point);
  into.tensors = state.model();
  into.tensors.insert(into.tensors.end(), state.optimizer().begin(), state.optimizer().end());
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

void broadcast(Safetensors& state, World& world) {
  run::Json header = {{"metadata", state.metadata}, {"bytes", state.storage.size()}};
  for (const TensorView& each : state.tensors)
    header["tensors"].push_back({each.name, each.type, each.shape,
                                 each.bytes.data() - state.storage.data(), each.bytes.size()});
  header = run::Json::parse(world.broadcast(header.dump()));
  state.storage.resize(header["bytes"].get<size_t>());
  world.communicator().broadcast(
      {state.storage.data(), static_cast<int64_t>(state.storage.size()), Type::u8}, 0);
  state.metadata = header["metadata"].get<Metadata>();
  state.tensors.clear();
  for (const auto& each : header["tensors"])
    state.tensors.push_back(
        {each[0],
         each[1],
         each[2],
         {state.storage.data() + each[3].get<ptrdiff_t>(), each[4].get<size_t>()}});
}

int64_t step_of(const Safetensors& state) {
  return resume_point_of(state, "memory").step;
}

std::vector<TensorView> weights_in(const Safetensors& state) {
  std::vector<TensorView> weights = state.tensors;
  std::erase_if(weights,
                [](const TensorView& each) { return each.name.starts_with(kOptimizerPrefix); });
  return weights;
}

ResumePoint restore(const Safetensors& state, const fs::path& path, const Model& model,
                    Step& step) {
  ResumePoint point = resume_point_of(state, path);
  std::set<std::string> known;
  for (const NamedTensor& each : tensors_of(model)) known.insert(each.name);
  for (const TensorView& tensor : weights_in(state))
    if (!known.contains(tensor.name))
      throw BadInput("{}: is for another model: its tensor '{}' is not in this model",
                     path.string(), tensor.name);
  const auto tensors = optimizer_tensors(step);
  for (const auto& tensor : tensors)
    require(state, path, tensor.name, "F32", tensor.parameter->shape);
  const std::vector<NamedTensor> weights = tensors_of(step);
  for (const auto& [name, tensor] : weights)
    require(state, path, name, type_name(tensor), tensor.sizes().vec());
  for (const auto& [name, tensor] : weights) set_bytes(tensor, state.find(name)->bytes);
  for (const auto& tensor : tensors)
    for (const auto& [begin, values] : tensor.pieces)
      std::memcpy(
          values.data(),
          state.find(tensor.name)->bytes.data() + static_cast<size_t>(begin) * sizeof(float),
          values.size_bytes());
  return point;
}

std::vector<parallel::StateTensor> state_tensors(Step& step) {
  std::vector<parallel::StateTensor> all;
  for (const auto& [name, tensor] : tensors_of(step)) all.push_back({name, tensor});
  if (step.state_is_divided()) return all;
  for (const auto& tensor : optimizer_tensors(step))
    for (const auto& [begin, values] : tensor.pieces)
      all.push_back(
          {tensor.name, torch::from_blob(values.data(), {std::ssize(values)}, torch::kFloat32)});
  return all;
}

}  // namespace lockstep::train
