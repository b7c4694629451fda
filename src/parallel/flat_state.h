#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "collective/communicator.h"

namespace lockstep::parallel {

/// A tensor of the state that all workers share.
struct StateTensor {
  std::string name;  ///< "buffer 'bn1.running_mean'", for messages
  torch::Tensor tensor;
};

/// A tensor of the state, and its place in contiguous memory.
struct PlacedTensor {
  StateTensor state;
  torch::Tensor place;
};

/// The size of a tensor's place in contiguous memory: every place begins at an address that is
/// aligned for any type.
int64_t aligned_bytes(const torch::Tensor& tensor);

/// A model's parameters and buffers.
std::vector<StateTensor> parameters_of(const torch::nn::Module& model);
std::vector<StateTensor> buffers_of(const torch::nn::Module& model);

/// Broadcasts tensors of any types as one message. Their bytes are copied into one buffer and back,
/// so that tensors stay where they are, may be loaded again and may share memory.
class FlatState {
 public:
  /// Throws BadInput with the tensor's name if its elements share memory with each other.
  FlatState(std::vector<StateTensor> tensors, collective::Communicator& group);

  /// All ranks get the tensors of `root`. Throws BadInput with the tensor's name if its size or
  /// type has changed.
  void broadcast(int root, collective::Cargo cargo = {});

 private:
  collective::Communicator& group_;
  std::vector<PlacedTensor> items_;  ///< in `all_`
  transport::Memory memory_;
  collective::Buffer all_;
};

}  // namespace lockstep::parallel
