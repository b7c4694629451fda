#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/table.h"
#include "collective/plan/plan.h"
#include "collective/plan/shards.h"

namespace lockstep::collective {

/// An all-reduce algorithm. Each is one file, which adds its row to the table when it is loaded:
///
///     [[maybe_unused]] const bool ring_added = algorithms().add(
///         {.name = "ring", .about = "...", .rounds = "2 (n-1)", .cost = "...", .make = ring});
///
/// Names, help texts, messages, `explain`, `bench` and the choice of `auto` come from the table.
struct AlgorithmRow {
  std::string name;
  std::string about;   ///< how it works, in one line
  std::string rounds;  ///< of n ranks: "2 (n-1)"
  /// Seconds on a switch whose links carry both directions at once, for powers of two:
  /// "2 (n-1) (latency + size/n/bandwidth)".
  std::string cost;
  /// Whether it adds along the canonical tree (shards.h), so that its result has the same bits as
  /// that of every other canonical algorithm, for any number of ranks.
  bool canonical = false;
  /// Whether a rank exchanges messages with about one other rank a round. Of algorithms that the
  /// simulator finds almost equally fast, `auto` prefers these: real networks handle many messages
  /// at once worse than the model does.
  bool pairwise = false;
  /// Whether ranks that see each other's memory run it there, without messages (shared_direct.h).
  bool in_shared_memory = false;
  /// The plan for two ranks or more. A row without one is the transport's own all-reduce.
  Plan (*make)(const Shards& shards, int64_t count) = nullptr;
};

/// All algorithms, by name. `engine` is the transport's own, such as MPI_Allreduce; all others are
/// plans.
Table<AlgorithmRow>& algorithms();

/// A row of the table: as cheap to copy and compare as a pointer.
class Algorithm {
 public:
  /// No algorithm, for collectives that have only one.
  Algorithm() = default;
  explicit Algorithm(const AlgorithmRow& row) : row_(&row) {}

  const std::string& name() const { return row_->name; }
  bool is_canonical() const { return row_->canonical; }
  bool is_engine() const { return row_->make == nullptr; }

  const AlgorithmRow& operator*() const { return *row_; }
  const AlgorithmRow* operator->() const { return row_; }
  /// An order without a meaning, for keys of maps.
  auto operator<=>(const Algorithm&) const = default;

 private:
  const AlgorithmRow* row_ = nullptr;
};

/// A plan after which every rank's bucket is the sum of its own terms, in their order: one round
/// without messages, or none if no rank has more than one term. The first part of algorithms that
/// do not add along the canonical tree.
Plan fold_own_terms(const Shards& shards, int64_t count);

/// Throws BadInput with the nearest name.
Algorithm parse_algorithm(const std::string& name);

/// The algorithms that are plans, in the order of their names: all but `engine`.
std::vector<Algorithm> planned_algorithms();

/// The plan after which every rank's bucket of `count` elements is the sum over all shards, for any
/// number of ranks and any count. Throws BadInput for an algorithm that is not a plan.
///
/// Where a rank's shards are more than one node of the canonical tree, `direct` sends all its
/// terms; the other algorithms take one more round, at the beginning, to bring terms together.
Plan all_reduce(Algorithm algorithm, const Shards& shards, int64_t count);

/// With one shard a rank.
Plan all_reduce(Algorithm algorithm, int world, int64_t count);

}  // namespace lockstep::collective
