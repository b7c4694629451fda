#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::parallel {

/// Equal tensors on another device; those that are undefined stay so. All of one type are copied at
/// once, since a copy between devices makes both wait for each other.
std::vector<torch::Tensor> copied_together(const std::vector<torch::Tensor>& tensors,
                                           torch::Device device);

/// A replica of a model on another device, which follows it.
class MirroredModel {
 public:
  using Make = std::function<std::shared_ptr<torch::nn::Module>()>;

  /// Clones the model to the device or, with `make`, makes another one there. LibTorch's random
  /// generator stays as it is. Throws BadInput if neither gives a replica of the same structure.
  MirroredModel(const std::shared_ptr<torch::nn::Module>& model, torch::Device device,
                const Make& make);

  /// Copies parameters, buffers, training modes, and which parameters are trained. Returns the
  /// bytes that were copied. Autograd does not notice: earlier forward passes may have saved these
  /// tensors. (If it must notice that a parameter was changed since such a pass, it does on the
  /// first device.)
  int64_t refresh();
  /// The same by few copies between the devices, into other memory: of everything, or of the
  /// buffers alone. No graph of an earlier forward pass may be used afterwards.
  int64_t replace();
  int64_t replace_buffers() { return replace(buffers_); }
  /// Copies the replica's buffers to the model's, and returns the bytes.
  int64_t give_back_buffers();

  const std::shared_ptr<torch::nn::Module>& module() const { return replica_; }
  /// In the order of the model's.
  std::vector<torch::Tensor> parameters() const;

 private:
  struct TensorPair {
    std::string name;
    torch::Tensor original, copy;
  };
  struct ModulePair {
    std::shared_ptr<torch::nn::Module> original, copy;
  };

  void pair_tensors(const torch::nn::Module& model);
  void follow_modes() const;
  int64_t refresh(const TensorPair& pair) const;
  int64_t replace(const std::vector<TensorPair>& pairs) const;

  const torch::Device device_;
  const std::shared_ptr<torch::nn::Module> replica_;
  std::vector<TensorPair> parameters_, buffers_;
  std::vector<ModulePair> modules_;  ///< parents before children
};

}  // namespace lockstep::parallel
