#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "lockstep/sharded_optimizer.h"
#include "parallel/fail_stop.h"
#include "parallel/optimizer_archive.h"
#include "parallel/parameter_exchange.h"

namespace lockstep {
namespace parallel {

/// A parameter, by its group and its place there.
struct GroupedParameter {
  torch::Tensor tensor;
  size_t group;
  size_t index;
  std::vector<int64_t> sizes;  ///< when the optimizer was made
  std::vector<int64_t> strides;

  std::string name() const { return fmt::format("parameter {} of group {}", index, group); }
};

}  // namespace parallel

/// A worker's *share* of an optimizer is an optimizer of the same class over its pieces of the
/// parameters (parameter_shares.h). A piece is a vector that shares its parameter's memory; in a
/// step its gradient is the same piece of the parameter's gradient. A piece stays the same tensor,
/// because LibTorch keeps state by the address of a tensor's implementation.
struct ShardedUpdate::State {
  using Saved = parallel::SavedOptimizer;

  State(const Groups& groups, World of_workers, Divide divided_by);

  const parallel::Pieces& own_pieces() const { return pieces[static_cast<size_t>(world.rank())]; }
  /// Collective.
  void update(const Groups& groups);
  void pass_on_options(const Groups& groups);
  /// On rank 0, while the others `send_share`: what all of them keep.
  Saved joined();
  void send_share();
  Saved own_share_of(const Saved& whole) const;

  World world;
  const Divide divide;
  const std::vector<parallel::GroupedParameter> parameters;
  const std::vector<parallel::Pieces> pieces;  ///< by rank
  std::vector<torch::Tensor> own_tensors;      ///< of this rank's pieces
  Groups own_groups;
  std::unique_ptr<torch::optim::Optimizer> own;
  parallel::ParameterExchange exchange;
  parallel::FailStop fail_stop;

 private:
  void check_unchanged(const Groups& groups) const;
  std::vector<char> gradients_here() const;
  void place_pieces(const std::vector<char>& has_gradient);
  void join(const Saved& share, int rank, Saved& whole) const;
};

}  // namespace lockstep
