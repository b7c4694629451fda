#include "doctor/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "doctor/area.h"
#include "doctor/resolve.h"
#include "doctor/sources.h"
#include "lockstep/error.h"

namespace lockstep::doctor {
namespace {

constexpr double kResolveSeconds = 2;

RankFacts gather_ranks() {
  RankFacts facts;
  try {
    facts.told = launch::ranks_in_environment();
    facts.job = launch::job_from_environment();
  } catch (const BadInput& error) {
    facts.failure = error.what();
  }
  if (const auto local = variable("LOCAL_WORLD_SIZE"))
    facts.local_world = std::max(1, std::atoi(local->c_str()));
  if (!facts.job) return facts;
  const Resolved master =
      resolve_within(kResolveSeconds, facts.job->master_host, facts.job->master_port);
  facts.address_failure = master.failure;
  if (!master.addresses.empty()) facts.address = master.addresses.front().text();
  return facts;
}

std::vector<Fact> facts_of(const RankFacts& facts) {
  if (!facts.failure.empty()) return {{"launcher", Json(), "its variables are wrong"}};
  if (!facts.job) return {{"launcher", "none", "none: lockstep starts workers itself"}};
  const launch::Job& job = *facts.job;
  return {{"launcher", job.launcher},
          {"rank",
           {{"rank", job.rank}, {"world_size", job.world}, {"local_rank", job.local_rank}},
           fmt::format("{} of {}, local rank {}", job.rank, job.world, job.local_rank)},
          {"rank 0",
           {{"host", job.master_host}, {"port", job.master_port}, {"address", facts.address}},
           fmt::format("{}:{}{}", job.master_host, job.master_port,
                       facts.address.empty() || facts.address.starts_with(job.master_host)
                           ? ""
                           : fmt::format(" ({})", facts.address))}};
}

Section examine_ranks(const Visit& /*visit*/) {
  const RankFacts facts = gather_ranks();
  return {facts_of(facts), judge(facts)};
}

const bool ranks_added = areas().add(
    {"ranks", "which worker this process is, and by which launcher", 60, examine_ranks});

// A launcher inside another one, such as torchrun in each task of srun, multiplies its world.
bool disagree(const launch::ToldRank& followed, const launch::ToldRank& other, int local_world) {
  return followed.world != other.world && followed.world != other.world * local_world;
}

}  // namespace

std::vector<Finding> judge(const RankFacts& facts) {
  std::vector<Finding> findings;
  if (!facts.failure.empty()) {
    findings.push_back({.id = "ranks.environment",
                        .severity = Severity::problem,
                        .what = facts.failure,
                        .why = "no worker can start with it",
                        .cure = "unset RANK WORLD_SIZE, or let a launcher set them: lockstep run "
                                "-n N -- PROGRAM"});
    return findings;
  }
  for (size_t i = 1; i < facts.told.size(); ++i) {
    const launch::ToldRank& followed = facts.told.front();
    const launch::ToldRank& other = facts.told[i];
    if (!disagree(followed, other, facts.local_world)) continue;
    findings.push_back(
        {.id = "ranks.world_size",
         .severity = Severity::problem,
         .what = fmt::format("{}={} (by {}), but {}={} (by {})", followed.world_variable,
                             followed.world, followed.launcher, other.world_variable, other.world,
                             other.launcher),
         .why = fmt::format("workers follow the first and wait for {} of them", followed.world),
         .cure = fmt::format("unset RANK WORLD_SIZE, so that {} is followed, or start {} workers",
                             other.launcher, followed.world)});
  }
  if (!facts.address_failure.empty())
    findings.push_back({.id = "ranks.master",
                        // Those that MPI started meet by it, unless they are told otherwise.
                        .severity = facts.job->by_mpi ? Severity::advice : Severity::problem,
                        .what = fmt::format("the host of rank 0, {}, has no address: {}",
                                            facts.job->master_host, facts.address_failure),
                        .why = "workers meet there",
                        .cure = "set MASTER_ADDR to a name or address of that host that all hosts "
                                "know (getent hosts NAME)"});
  return findings;
}

}  // namespace lockstep::doctor
