#include "parallel/mirrored_model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/InferenceMode.h>
#include <torch/utils.h>

#include <utility>

#include "device/memory_account.h"
#include "lockstep/error.h"
#include "parallel/tensor_buffer.h"

namespace lockstep::parallel {
namespace {

using torch::nn::Module;

// Modules initialise themselves when they are made, by random numbers that nobody uses.
class RestoredGenerator {
 public:
  RestoredGenerator() {
    const std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~RestoredGenerator() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }
  RestoredGenerator(const RestoredGenerator&) = delete;
  RestoredGenerator& operator=(const RestoredGenerator&) = delete;

 private:
  at::Generator generator_ = at::detail::getDefaultCPUGenerator();
  torch::Tensor state_;
};

std::string how_to_copy(const std::string& type) {
  return fmt::format(
      "derive it from torch::nn::Cloneable<{}> and make its parameters, buffers and modules in "
      "reset(), or set DataParallelOptions::make_replica",
      type);
}

std::shared_ptr<Module> cloned(const Module& model, torch::Device device) {
  try {
    return model.clone(device);
  } catch (const c10::Error& error) {
    throw BadInput("DataParallel cannot copy {} to {}: {}; {}", model.name(), device_name(device),
                   error.what_without_backtrace(), how_to_copy(model.name()));
  }
}

std::shared_ptr<Module> made(const Module& model, torch::Device device,
                             const MirroredModel::Make& make) {
  std::shared_ptr<Module> replica = make();
  if (!replica || replica.get() == &model)
    throw BadInput("DataParallelOptions::make_replica returned {}: expected another {}",
                   replica ? "the model itself" : "nothing", model.name());
  replica->to(device);
  return replica;
}

std::shared_ptr<Module> replica_of(const Module& model, torch::Device device,
                                   const MirroredModel::Make& make) {
  const c10::InferenceMode tensors_for_training(false);
  const MemoryScope scope(MemoryUse::parameters);
  const RestoredGenerator generator;
  return make ? made(model, device, make) : cloned(model, device);
}

// LibTorch leaves a child that is not Cloneable as reset() has made it. Returns the class of the
// outermost such module around the parameter or buffer "layer.fc.weight".
std::string uncloneable_around(const Module& model, const std::string& tensor) {
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    if (!tensor.starts_with(item.key() + ".")) continue;
    try {
      item.value()->clone();
    } catch (const c10::Error&) {
      return item.value()->name();
    }
  }
  return model.name();
}

bool has_same_layout(const torch::Tensor& a, const torch::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

}  // namespace

MirroredModel::MirroredModel(const std::shared_ptr<Module>& model, torch::Device device,
                             const Make& make)
    : device_(device), replica_(replica_of(*model, device, make)) {
  pair_tensors(*model);
  const auto originals = model->modules(), copies = replica_->modules();
  if (originals.size() != copies.size())
    throw BadInput("the replica of {} on {} has {} modules, the model {}; {}", model->name(),
                   device_name(device), copies.size(), originals.size(),
                   how_to_copy(model->name()));
  for (size_t i = 0; i < originals.size(); ++i) modules_.push_back({originals[i], copies[i]});
}

void MirroredModel::pair_tensors(const Module& model) {
  const auto pair = [&](const char* what, const auto& originals, const auto& copies) {
    std::vector<TensorPair> pairs;
    for (const auto& item : originals) {
      const torch::Tensor* const copy = copies.find(item.key());
      if (copy == nullptr || copies.size() != originals.size())
        throw BadInput("the replica of {} on {} has {} {}s, the model {}, of which '{}' is one; {}",
                       model.name(), device_name(device_), copies.size(), what, originals.size(),
                       item.key(), how_to_copy(model.name()));
      if (copy->device() != device_)
        throw BadInput("DataParallel cannot copy {} '{}' to {}: {} is not cloned; {}", what,
                       item.key(), device_name(device_), uncloneable_around(model, item.key()),
                       how_to_copy(uncloneable_around(model, item.key())));
      pairs.push_back({fmt::format("{} '{}'", what, item.key()), item.value(), *copy});
    }
    return pairs;
  };
  parameters_ = pair("parameter", model.named_parameters(), replica_->named_parameters());
  buffers_ = pair("buffer", model.named_buffers(), replica_->named_buffers());
}

int64_t MirroredModel::refresh() {
  const torch::NoGradGuard no_grad;
  for (const ModulePair& pair : modules_)
    if (pair.copy->is_training() != pair.original->is_training())
      pair.copy->train(pair.original->is_training());
  int64_t bytes = 0;
  for (const TensorPair& pair : parameters_) {
    bytes += refresh(pair);
    if (pair.copy.requires_grad() != pair.original.requires_grad())
      pair.copy.set_requires_grad(pair.original.requires_grad());
  }
  for (const TensorPair& pair : buffers_) bytes += refresh(pair);
  return bytes;
}

int64_t MirroredModel::refresh(const TensorPair& pair) const {
  if (has_same_layout(pair.original, pair.copy))
    pair.copy.variable_data().copy_(pair.original, /*non_blocking=*/true);
  else
    torch::Tensor(pair.copy).set_data(pair.original.detach().to(device_));
  return static_cast<int64_t>(pair.original.nbytes());
}

std::vector<torch::Tensor> MirroredModel::parameters() const {
  std::vector<torch::Tensor> parameters;
  for (const TensorPair& pair : parameters_) parameters.push_back(pair.copy);
  return parameters;
}

}  // namespace lockstep::parallel
