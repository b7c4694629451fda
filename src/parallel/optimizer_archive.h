#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parallel/parameter_shares.h"

namespace lockstep::parallel {

using ArchiveValues = std::map<std::string, c10::IValue>;

/// What an optimizer of torch::optim saves: torch/optim/serialize.h.
struct SavedOptimizer {
  struct Group {
    ArchiveValues options;
    std::vector<std::optional<ArchiveValues>> states;  ///< by parameter, where there is any
  };
  std::vector<Group> groups;
};

/// Throws BadInput if the archive has another form. Messages call it `what`.
SavedOptimizer read_optimizer(torch::serialize::InputArchive& archive, const std::string& what);
void write_optimizer(const SavedOptimizer& saved, torch::serialize::OutputArchive& archive);

/// The optimizer's archive as bytes, and back. Tensors are then in host memory.
std::string bytes_of(const torch::optim::Optimizer& optimizer);
SavedOptimizer optimizer_of(const std::string& bytes, const std::string& what);
/// Calls `optimizer.load`.
void load_optimizer(const SavedOptimizer& saved, torch::optim::Optimizer& optimizer);

/// An optimizer's options, by name; none if its class does not serialize them.
ArchiveValues values_of(const torch::optim::OptimizerOptions& options);

/// State of a whole parameter from state of its pieces: vectors as long as the piece are parts of
/// one tensor, in host memory; other values are those of the first piece.
void join_state(const ArchiveValues& of_piece, Range piece, const at::Tensor& parameter,
                std::optional<ArchiveValues>& whole);
/// The reverse: the piece's part of tensors with the parameter's shape, in memory of their own;
/// other values as they are.
ArchiveValues cut_state(const ArchiveValues& whole, Range piece, const at::Tensor& parameter);

/// Moves the state of an optimizer of torch::optim to a device: LibTorch loads tensors only to the
/// CPU and to CUDA's devices. Throws BadInput for other classes of state.
void move_state_to(at::Device device, torch::optim::Optimizer& optimizer);

}  // namespace lockstep::parallel
