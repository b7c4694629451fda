#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "collective/communicator.h"

namespace lockstep::parallel {

/// A tensor that is part of what workers must hold alike.
struct StateTensor {
  std::string name;  ///< "buffer 'bn1.running_mean'", for messages
  torch::Tensor tensor;
};

/// A model's parameters and buffers.
std::vector<StateTensor> parameters_of(const torch::nn::Module& model);
std::vector<StateTensor> buffers_of(const torch::nn::Module& model);

/// Gives all ranks one rank's state, of whatever types, as one message. Tensors stay where they
/// are, and may be loaded anew or share memory: their bytes are copied into one piece of memory and
/// out of it.
class FlatState {
 public:
  /// Throws BadInput, naming it, for a tensor that is not on the CPU, or whose elements share
  /// memory with each other.
  FlatState(std::vector<StateTensor> tensors, collective::Communicator& group);

  /// All ranks get `root`'s. Throws BadInput, naming it, for a tensor whose size or type has
  /// changed.
  void broadcast(int root, collective::Cargo cargo = {});

 private:
  struct PlacedTensor {
    StateTensor state;
    torch::Tensor place;  ///< in `all_`
  };

  collective::Communicator& group_;
  std::vector<PlacedTensor> items_;
  transport::Memory memory_;
  collective::Buffer all_;
};

}  // namespace lockstep::parallel
