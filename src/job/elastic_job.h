#pragma once

#include <optional>
#include <string>

#include "base/agreement.h"
#include "elastic/coordinator.h"
#include "elastic/member.h"
#include "launch/job.h"
#include "launch/placement.h"

namespace lockstep::job {

/// The flags of elastic training, in which workers may join and leave.
struct ElasticFlags {
  bool on = false;
  std::optional<int> least;
  std::optional<int> most;
  std::string join;  ///< HOST:PORT of a running job to join

  bool asked() const { return on || !join.empty(); }
};

/// An elastic job, as one host sees it.
struct ElasticJob {
  ElasticFlags flags;
  launch::PlacementFlags placement;
  Facts facts = {};      ///< what must be equal on all workers
  int most_workers = 1;  ///< the recipe's number of shards
  double silence_seconds = 10;

  int least() const { return flags.least.value_or(1); }
  int most() const { return flags.most.value_or(most_workers); }
  /// The number of workers that the job starts with.
  int first() const { return placement.workers() * placement.nodes(); }
  /// Whether this host runs the coordinator.
  bool leads() const { return flags.join.empty() && placement.node_rank() == 0; }
};

/// Throws BadInput for flags that contradict each other.
void check(const ElasticJob& job);

/// The coordinator's address and the job's key. Throws BadInput if no key is set.
launch::Job coordinator_address(const ElasticJob& job);

elastic::CoordinatorOptions coordinator_options(const ElasticJob& job, const launch::Job& address);

/// The options of a worker on this host.
elastic::MemberOptions member_options(const ElasticJob& job, const launch::Job& address);

}  // namespace lockstep::job
