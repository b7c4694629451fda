#include "cli/placement_flags.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/tell.h"
#include "lockstep/error.h"

namespace lockstep::cli {

void add_placement_flags(CLI::App& app, launch::PlacementFlags& flags) {
  app.add_option("-n,--workers", flags.asked_workers, "workers on this host (default 1)")
      ->type_name("N");
  app.add_option("--nnodes", flags.asked_nodes,
                 "number of hosts, each with --workers workers (default 1)")
      ->type_name("N");
  app.add_option("--node-rank", flags.asked_node_rank,
                 "number of this host, from 0; required with several hosts")
      ->type_name("N");
  app.add_option("--master", flags.master,
                 "address of host 0; all hosts need the same LOCKSTEP_JOB_KEY in the environment")
      ->type_name("HOST:PORT");
}

void add_ssh_flags(CLI::App& app, launch::SshOptions& options) {
  app.add_option("--ssh", options.command,
                 "how to reach them, such as \"ssh -p 2222 -i key\" (default ssh)")
      ->type_name("COMMAND");
  app.add_option("--remote-lockstep", options.lockstep,
                 "this program's path there (default: as here)")
      ->type_name("PATH");
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
