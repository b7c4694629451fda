#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "collective/communicator.h"

namespace lockstep::parallel {

/// Sends a model's buffers, of whatever types, as one message. They stay where they are, and may be
/// loaded anew or share memory: their bytes are copied into one piece of memory and out of it.
class FlatBuffers {
 public:
  /// Throws BadInput, naming it, for a buffer that is not on the CPU, or whose elements share
  /// memory with each other.
  FlatBuffers(const torch::nn::Module& model, collective::Communicator& group);

  /// All ranks get `root`'s. Throws BadInput, naming it, for a buffer whose size or type is another
  /// now.
  void broadcast(int root);

 private:
  struct Item {
    std::string name;
    torch::Tensor buffer;  ///< the model's
    torch::Tensor place;   ///< in `all_`
  };

  collective::Communicator& group_;
  std::vector<Item> items_;
  transport::Memory memory_;
  collective::Buffer all_;
};

}  // namespace lockstep::parallel
