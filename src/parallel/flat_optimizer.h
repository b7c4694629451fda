#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/range.h"
#include "device/memory_account.h"
#include "optim/optimizer.h"
#include "parallel/replica.h"

namespace lockstep::parallel {

/// The optimizer of a replica's flat parameters. Its state is on every worker, or divided among
/// them (ZeRO, stage 1).
///
/// Where it is divided, a worker's *share* of a bucket is its slice (base/range.h). The worker
/// keeps the state of its shares, updates these, and gets the other shares of a bucket by an
/// all-gather, which runs while the next bucket is updated. Updates are elementwise, so that
/// parameters have the same bits as with the whole state on every worker.
class FlatOptimizer {
 public:
  enum class State { whole, divided };

  /// With State::divided the replica's parameters must be in ParameterMemory::exchanged. The
  /// replica must outlive this.
  FlatOptimizer(Replica& replica, const optim::OptimizerOptions& options, State state);

  /// One update; `update` counts from 1. Collective, if the state is divided: what it throws then
  /// leaves parameters that are partly updated, and `collected` throws from then on.
  void step(double rate, int64_t update);

  bool is_divided() const { return divided_; }

  /// The names of what is kept for each parameter: "momentum".
  std::vector<std::string> state_names() const;

  /// What this worker keeps, in place: of the memory with the layout of parameters, the elements
  /// `range`.
  struct Piece {
    std::string name;
    Range range;
    std::span<float> values;
  };
  std::vector<Piece> state() const;

  /// All of one kind of state, with the layout of parameters.
  struct WholeState {
    std::string name;
    std::span<const float> values;
    std::vector<float> memory = {};  ///< of values, unless they are in place
  };
  /// On the group's first worker. Where the state is divided, other workers get no values, and it
  /// is collective.
  std::vector<WholeState> collected();

 private:
  struct Share {
    Range range;
    std::unique_ptr<optim::Optimizer> optimizer;
  };

  std::vector<Range> ranges() const;
  void update(const Share& share, double rate, int64_t update);
  void update_and_gather(double rate, int64_t update);
  collective::Pending start_gather(size_t bucket);
  std::vector<float> gathered(const std::string& name);

  // Constant after construction.
  Replica& replica_;
  const bool divided_;
  std::vector<Share> shares_;  ///< by bucket; one of everything if it is not divided
  MemoryCharge memory_;

  bool partly_updated_ = false;
};

}  // namespace lockstep::parallel
