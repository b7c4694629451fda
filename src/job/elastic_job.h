#pragma once

#include <optional>
#include <string>

#include "base/agreement.h"
#include "elastic/coordinator.h"
#include "elastic/member.h"
#include "launch/job.h"
#include "launch/placement.h"

namespace lockstep::job {

/// Whether and how workers come and go.
struct ElasticFlags {
  bool on = false;
  std::optional<int> least;
  std::optional<int> most;
  std::string join;  ///< HOST:PORT of a job that runs elsewhere

  bool asked() const { return on || !join.empty(); }
};

/// A job whose workers come and go, from the side of one host.
struct ElasticJob {
  ElasticFlags flags;
  launch::PlacementFlags placement;
  Facts facts = {};      ///< what all workers must hold alike
  int most_workers = 1;  ///< that the recipe has work for
  double silence_seconds = 10;

  int least() const { return flags.least.value_or(1); }
  int most() const { return flags.most.value_or(most_workers); }
  /// That it begins with.
  int first() const { return placement.workers() * placement.nodes(); }
  /// Whether its coordinator is on this host.
  bool leads() const { return flags.join.empty() && placement.node_rank() == 0; }
};

/// Throws BadInput for flags that do not fit each other.
void check(const ElasticJob& job);

/// Where the coordinator is, and the job's key. Throws BadInput where no key is set.
launch::Job coordinator_address(const ElasticJob& job);

elastic::CoordinatorOptions coordinator_options(const ElasticJob& job, const launch::Job& address);

/// What a worker of this host needs to take part.
elastic::MemberOptions member_options(const ElasticJob& job, const launch::Job& address);

}  // namespace lockstep::job
