#include "parallel/mirrored_model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/accumulate.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
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

// Tensors of one type that are copied as one, each at the alignment of memory that is allocated for
// it alone: kernels may compute other bits elsewhere.
class Pack {
 public:
  void add(size_t number, const torch::Tensor& tensor) {
    constexpr int64_t kCacheLine = 64;
    const int64_t unit = std::max<int64_t>(kCacheLine / tensor.element_size(), 1);
    places_.push_back({number, end_, tensor.sizes().vec()});
    pieces_.push_back(tensor.detach().reshape({-1}));
    end_ += tensor.numel();
    const int64_t gap = (unit - end_ % unit) % unit;
    if (!gap_.defined()) gap_ = torch::zeros({unit}, pieces_.front().options());
    if (gap > 0) pieces_.push_back(gap_.narrow(0, 0, gap));
    end_ += gap;
  }

  void copy_to(torch::Device device, std::vector<torch::Tensor>& results) const {
    const torch::Tensor all = torch::cat(pieces_).to(device, /*non_blocking=*/true);
    for (const auto& [number, begin, sizes] : places_)
      results[number] = all.narrow(0, begin, c10::multiply_integers(sizes)).view(sizes);
  }

 private:
  struct Place {
    size_t number;
    int64_t begin;
    std::vector<int64_t> sizes;
  };
  std::vector<Place> places_;
  std::vector<torch::Tensor> pieces_;
  torch::Tensor gap_;
  int64_t end_ = 0;
};

}  // namespace

std::vector<torch::Tensor> copied_together(const std::vector<torch::Tensor>& tensors,
                                           torch::Device device) {
  std::map<torch::ScalarType, Pack> packs;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].defined()) packs[tensors[i].scalar_type()].add(i, tensors[i]);
  std::vector<torch::Tensor> results(tensors.size());
  for (const auto& [type, pack] : packs) pack.copy_to(device, results);
  return results;
}

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

void MirroredModel::follow_modes() const {
  for (const ModulePair& pair : modules_)
    if (pair.copy->is_training() != pair.original->is_training())
      pair.copy->train(pair.original->is_training());
  for (const TensorPair& pair : parameters_)
    if (pair.copy.requires_grad() != pair.original.requires_grad())
      pair.copy.set_requires_grad(pair.original.requires_grad());
}

int64_t MirroredModel::refresh() {
  const torch::NoGradGuard no_grad;
  int64_t bytes = 0;
  for (const auto* const pairs : {&parameters_, &buffers_})
    for (const TensorPair& pair : *pairs) bytes += refresh(pair);
  follow_modes();
  return bytes;
}

int64_t MirroredModel::replace() {
  const int64_t bytes = replace(parameters_) + replace(buffers_);
  follow_modes();
  return bytes;
}

int64_t MirroredModel::replace(const std::vector<TensorPair>& pairs) const {
  const torch::NoGradGuard no_grad;
  const MemoryScope scope(MemoryUse::parameters);
  std::vector<torch::Tensor> originals;
  for (const TensorPair& pair : pairs) originals.push_back(pair.original);
  const std::vector<torch::Tensor> there = copied_together(originals, device_);
  int64_t bytes = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    torch::Tensor(pairs[i].copy).set_data(there[i]);
    bytes += static_cast<int64_t>(there[i].nbytes());
  }
  return bytes;
}

int64_t MirroredModel::give_back_buffers() {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> copies;
  for (const TensorPair& pair : buffers_) {
    if (pair.original.sizes() != pair.copy.sizes() ||
        pair.original.scalar_type() != pair.copy.scalar_type())
      throw BadInput(
          "{} of the replica on {} is {} now, and was {}: a buffer must keep its type and shape",
          pair.name, device_name(device_), describe(pair.copy), describe(pair.original));
    copies.push_back(pair.copy);
  }
  if (copies.empty()) return 0;
  const auto here = copied_together(copies, buffers_.front().original.device());
  int64_t bytes = 0;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    buffers_[i].original.variable_data().copy_(here[i]);
    bytes += static_cast<int64_t>(here[i].nbytes());
  }
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
