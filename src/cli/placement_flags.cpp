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

namespace {

// Of workers that ended well, or as Ctrl-C or SIGTERM asked them to, or because others did.
int exit_code_as_asked(const std::vector<launch::Ending>& endings) {
  int code = 0;
  for (const launch::Ending& ending : endings)
    if (ending.as_asked && (code == 0 || code == kLostOthers)) code = ending.exit_code();
  return code;
}

}  // namespace

int run_placed(const launch::PlacementFlags& flags, launch::Prefixed prefixed,
               const std::function<int(const launch::Job&)>& worker,
               const std::function<void(const launch::Ending&)>& on_failure) {
  const std::vector<launch::Job> jobs = launch::jobs_here(flags);
  const int first = jobs.front().rank;
  const auto endings = launch::run_workers(
      {.count = flags.workers(), .first_rank = first, .prefixed = prefixed},
      [&](int rank) { return worker(jobs[static_cast<size_t>(rank - first)]); });
  const launch::Ending* const failure = launch::first_failure(endings);
  if (failure == nullptr) return exit_code_as_asked(endings);
  tell(failure->text());
  if (on_failure) on_failure(*failure);
  return failure->exit_code();
}

}  // namespace lockstep::cli
