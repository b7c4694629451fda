#include "cli/elastic_flags.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "cli/stop_signals.h"
#include "cli/tell.h"
#include "elastic/coordinator.h"
#include "launch/elastic_workers.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

int least_workers(const ElasticJob& job) {
  return job.flags.least.value_or(1);
}

int most_workers(const ElasticJob& job) {
  return job.flags.most.value_or(job.most_workers);
}

int first_workers(const ElasticJob& job) {
  return job.placement.workers() * job.placement.nodes();
}

// Where the job is led from, and its key: on the host of node 0.
launch::Job lead_of(const ElasticJob& job) {
  const char* const key = std::getenv("LOCKSTEP_JOB_KEY");
  if ((key == nullptr || *key == '\0') &&
      (!job.flags.join.empty() || !job.placement.master.empty()))
    throw BadInput("--{}: set LOCKSTEP_JOB_KEY to a secret, the same for all who join",
                   job.flags.join.empty() ? "master" : "join");
  launch::PlacementFlags placement = job.placement;
  if (!job.flags.join.empty()) {
    placement.master = job.flags.join;
    placement.asked_nodes = 2;
    placement.asked_node_rank = 1;
  }
  return launch::jobs_here(placement).front();
}

bool leads(const ElasticJob& job) {
  return job.flags.join.empty() && job.placement.node_rank() == 0;
}

elastic::CoordinatorOptions coordinator_options(const ElasticJob& job, const launch::Job& lead) {
  return {.host = lead.master_host,
          .port = lead.master_port,
          .key = lead.key,
          .silence_seconds = job.silence_seconds,
          .limits = {.facts = job.facts,
                     .first = first_workers(job),
                     .here = job.placement.workers(),
                     .least = least_workers(job),
                     .most = most_workers(job)}};
}

}  // namespace

void add_elastic_flags(CLI::App& app, ElasticFlags& flags) {
  app.add_flag("--elastic", flags.on,
               "go on without workers that die, start others in their place, let more join");
  app.add_option("--min-workers", flags.least,
                 "with --elastic: with fewer, write a checkpoint and stop (default 1)")
      ->type_name("N");
  app.add_option("--max-workers", flags.most,
                 "with --elastic: no more than so many (default: as many as shards)")
      ->type_name("N");
  app.add_option("--join", flags.join,
                 "join the elastic job at its --master, with its LOCKSTEP_JOB_KEY, from any host")
      ->type_name("HOST:PORT");
}

void check(const ElasticJob& job) {
  const ElasticFlags& flags = job.flags;
  if (!flags.on && (flags.least || flags.most))
    throw BadInput("--{}-workers: only with --elastic", flags.least ? "min" : "max");
  if (!flags.asked()) return;
  if (!flags.join.empty() && (job.placement.asked_nodes || job.placement.asked_node_rank ||
                              !job.placement.master.empty() || flags.least || flags.most))
    throw BadInput(
        "--join {}: leave --nnodes, --node-rank, --master, --min-workers and --max-workers to the "
        "job that is joined",
        flags.join);
  const int least = least_workers(job), most = most_workers(job), first = first_workers(job);
  if (least < 1 || least > most) throw BadInput("--min-workers {}: expected 1 to {}", least, most);
  if (most > job.most_workers)
    throw BadInput("--max-workers {}: the recipe has {} shards, of which each worker needs one",
                   most, job.most_workers);
  if (flags.join.empty() && (first < least || first > most))
    throw BadInput("--workers {}: expected {} to {} (--min-workers, --max-workers)", first, least,
                   most);
}

int run_elastically(const ElasticJob& job, const ElasticWorkerMain& worker,
                    const OnElasticFailure& on_failure) {
  const launch::Job lead = lead_of(job);
  launch::ElasticOptions options{.places = job.placement.workers()};
  if (leads(job)) options.lead = coordinator_options(job, lead);
  const launch::ElasticEnding ending = launch::run_elastic_workers(options, [&](int place) {
    if (!leads(job)) stop_on_signals();
    launch::Job mine = lead;
    mine.local_rank = place;
    return worker(mine, {.host = lead.master_host,
                         .port = lead.master_port,
                         .key = lead.key,
                         .facts = job.facts,
                         .silence_seconds = job.silence_seconds,
                         .connect_seconds = job.flags.join.empty() ? 60.0 : 10.0,
                         .is_guest = !leads(job),
                         .stop = stop_descriptor()});
  });
  if (ending.gave_up)
    tell(fmt::format("fewer than {} workers were left (--min-workers)", least_workers(job)));
  if (!ending.failure.empty()) {
    tell(ending.failure);
    on_failure(ending.failure);
  }
  return ending.exit_code;
}

}  // namespace lockstep::cli
