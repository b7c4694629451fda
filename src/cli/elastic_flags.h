#pragma once

#include <functional>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "base/agreement.h"
#include "elastic/member.h"
#include "launch/job.h"
#include "launch/placement.h"

namespace lockstep::cli {

/// Flags of a job whose workers come and go.
struct ElasticFlags {
  bool on = false;
  std::optional<int> least;
  std::optional<int> most;
  std::string join;  ///< HOST:PORT of a job that runs elsewhere

  bool asked() const { return on || !join.empty(); }
};

void add_elastic_flags(CLI::App& app, ElasticFlags& flags);

struct ElasticJob {
  ElasticFlags flags;
  launch::PlacementFlags placement;
  Facts facts;           ///< what all workers must hold alike
  int most_workers = 1;  ///< that the recipe has work for
  double silence_seconds = 10;
};

/// Throws BadInput for flags that do not fit each other.
void check(const ElasticJob& job);

/// What a worker does once it has been started: until the run ends or it is dismissed.
using ElasticWorkerMain =
    std::function<int(const launch::Job& job, const elastic::MemberOptions& membership)>;
/// Hears why the job did not come to its end.
using OnElasticFailure = std::function<void(const std::string& why)>;

/// Leads a job from here, or takes part in one that is led from elsewhere. Returns the exit code.
int run_elastically(const ElasticJob& job, const ElasticWorkerMain& worker,
                    const OnElasticFailure& on_failure);

}  // namespace lockstep::cli
