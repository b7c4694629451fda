#include "cli/placement_flags.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/tell.h"
#include "lockstep/error.h"

namespace lockstep::cli {

void add_placement_flags(CLI::App& app, launch::PlacementFlags& flags) {
  app.add_option("-n,--workers", flags.asked_workers, "workers on this host")->type_name("N");
  app.add_option("--nnodes", flags.asked_nodes, "hosts with so many workers each (default 1)")
      ->type_name("N");
  app.add_option("--node-rank", flags.asked_node_rank,
                 "which of the hosts this is, from 0; needed where there are several")
      ->type_name("N");
  app.add_option("--master", flags.master,
                 "where host 0 is; all hosts need the same LOCKSTEP_JOB_KEY in the environment")
      ->type_name("HOST:PORT");
}

StartedPlaced start_placed(const launch::PlacementFlags& flags, launch::Prefixed prefixed) {
  const std::vector<launch::Job> jobs = launch::jobs_here(flags);
  const int first = jobs.front().rank;
  const launch::StartedWorkers started =
      launch::start_workers({.count = flags.workers(), .first_rank = first, .prefixed = prefixed});
  if (started.rank) return {jobs[static_cast<size_t>(*started.rank - first)]};
  if (const launch::Ending* const failure = launch::first_failure(started.endings))
    tell(failure->text());
  return {std::nullopt, launch::exit_code_of(started.endings)};
}

}  // namespace lockstep::cli
