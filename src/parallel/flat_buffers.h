#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "collective/communicator.h"

namespace lockstep::parallel {

/// A model's buffers in one piece of memory for each of their types, so that all of a type travel
/// as one message. The model goes on using them: each becomes a view.
class FlatBuffers {
 public:
  FlatBuffers(torch::nn::Module& model, collective::Communicator& group);

  /// All ranks get `root`'s.
  void broadcast(int root);

  bool empty() const { return pieces_.empty(); }

 private:
  struct Piece {
    transport::Memory memory;
    collective::Buffer all;
  };

  collective::Communicator& group_;
  std::vector<Piece> pieces_;
};

}  // namespace lockstep::parallel
