#include "parallel/model_watch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>

#include "lockstep/error.h"
#include "parallel/flat_state.h"
#include "parallel/tensor_buffer.h"

namespace lockstep::parallel {
namespace {

// Cheap: unlike a list of all parameters, it needs no names.
size_t hash_of_modules(const torch::nn::Module& model) {
  size_t hash = 0;
  for (const auto& child : model.children()) {
    hash = hash * 31 + std::hash<const void*>()(child.get());
    hash = hash * 31 + hash_of_modules(*child);
  }
  return hash;
}

std::vector<std::string> tensors_of(const torch::nn::Module& model) {
  std::vector<std::string> names;
  for (const StateTensor& parameter : parameters_of(model)) names.push_back(parameter.name);
  for (const StateTensor& buffer : buffers_of(model)) names.push_back(buffer.name);
  std::ranges::sort(names);
  return names;
}

// The first of `names` that is not among `others`; both are sorted. Empty: all are.
std::string first_missing(const std::vector<std::string>& names,
                          const std::vector<std::string>& others) {
  for (const std::string& name : names)
    if (!std::ranges::binary_search(others, name)) return name;
  return {};
}

}  // namespace

ModelWatch::ModelWatch(const torch::nn::Module& model)
    : model_(model), tensors_(tensors_of(model)), modules_(hash_of_modules(model)) {
  for (const auto& item : model.named_parameters())
    parameters_.push_back(
        {item.key(), item.value(),
         torch::empty(item.value().sizes(),
                      item.value().options().device(torch::kMeta).requires_grad(false)),
         item.value().device(), item.value().requires_grad()});
}

void ModelWatch::check() {
  check_parameters();
  const size_t modules = hash_of_modules(model_);
  if (modules != modules_ || ++passes_ % kPassesBetweenWalks == 0) check_structure();
  modules_ = modules;
}

void ModelWatch::begin_pass() {
  for (WatchedParameter& watched : parameters_) {
    watched.version = static_cast<uint32_t>(watched.parameter._version());
    watched.memory = watched.parameter.data_ptr();
  }
}

void ModelWatch::end_pass() const {
  for (const WatchedParameter& watched : parameters_)
    if (watched.version != static_cast<uint32_t>(watched.parameter._version()) ||
        watched.memory != watched.parameter.data_ptr())
      throw BadInput(
          "parameter '{}' was changed in a forward or backward pass: a worker with several shards "
          "would change it several times, so that the model would depend on the number of workers; "
          "register as buffers what forward() changes (they become the mean over shards)",
          watched.name);
}

void ModelWatch::check_parameters() const {
  for (const WatchedParameter& watched : parameters_) {
    const auto& [name, parameter, before, device, trained, version, memory] = watched;
    if (parameter.scalar_type() != before.scalar_type() || parameter.sizes() != before.sizes())
      throw BadInput("parameter '{}' was {} and is {} now; wrap the model again afterwards", name,
                     describe(before), describe(parameter));
    if (parameter.device() != device)
      throw BadInput(
          "parameter '{}' was on {} and is on {} now; move the model before it is wrapped", name,
          device_name(device), device_name(parameter.device()));
    if (parameter.requires_grad() != trained)
      throw BadInput(
          "parameter '{}' was {} and is {} now: which parameters are trained must not change; "
          "wrap the model again afterwards",
          name, trained ? "trained" : "frozen", trained ? "frozen" : "unfrozen");
  }
}

// Modules without parameters and buffers may come and go.
void ModelWatch::check_structure() {
  const std::vector<std::string> now = tensors_of(model_);
  if (now == tensors_) return;
  const std::string added = first_missing(now, tensors_);
  throw BadInput(
      "{} was {} after the model was prepared for several workers, which would not keep it alike; "
      "register everything in the model's constructor, or wrap the model again "
      "afterwards",
      added.empty() ? first_missing(tensors_, now) : added,
      added.empty() ? "removed" : "registered");
}

}  // namespace lockstep::parallel
