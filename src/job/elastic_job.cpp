#include "job/elastic_job.h"

#include <cstdlib>

#include "launch/stop_signals.h"
#include "lockstep/error.h"

namespace lockstep::job {

void check(const ElasticJob& job) {
  const ElasticFlags& flags = job.flags;
  if (!flags.on && (flags.least || flags.most))
    throw BadInput("--{}-workers: only with --elastic", flags.least ? "min" : "max");
  if (!flags.asked()) return;
  if (!flags.join.empty() && (job.placement.asked_nodes || job.placement.asked_node_rank ||
                              !job.placement.master.empty() || flags.least || flags.most))
    throw BadInput(
        "--join {}: --nnodes, --node-rank, --master, --min-workers and --max-workers are set by "
        "the job that is joined; leave them out",
        flags.join);
  const int least = job.least(), most = job.most(), first = job.first();
  if (least < 1 || least > most) throw BadInput("--min-workers {}: expected 1 to {}", least, most);
  if (most > job.most_workers)
    throw BadInput("--max-workers {}: the recipe has {} shards, and each worker needs at least one",
                   most, job.most_workers);
  if (flags.join.empty() && (first < least || first > most))
    throw BadInput("--workers {}: expected {} to {} (--min-workers, --max-workers)", first, least,
                   most);
}

launch::Job coordinator_address(const ElasticJob& job) {
  const char* const key = std::getenv("LOCKSTEP_JOB_KEY");
  if ((key == nullptr || *key == '\0') &&
      (!job.flags.join.empty() || !job.placement.master.empty()))
    throw BadInput("--{}: set LOCKSTEP_JOB_KEY to a secret, the same on all hosts",
                   job.flags.join.empty() ? "master" : "join");
  launch::PlacementFlags placement = job.placement;
  if (!job.flags.join.empty()) {
    placement.master = job.flags.join;
    placement.asked_nodes = 2;
    placement.asked_node_rank = 1;
  }
  return launch::jobs_here(placement).front();
}

elastic::CoordinatorOptions coordinator_options(const ElasticJob& job, const launch::Job& address) {
  return {.host = address.master_host,
          .port = address.master_port,
          .key = address.key,
          .silence_seconds = job.silence_seconds,
          .limits = {.facts = job.facts,
                     .first = job.first(),
                     .here = job.placement.workers(),
                     .least = job.least(),
                     .most = job.most()}};
}

elastic::MemberOptions member_options(const ElasticJob& job, const launch::Job& address) {
  return {.host = address.master_host,
          .port = address.master_port,
          .key = address.key,
          .facts = job.facts,
          .silence_seconds = job.silence_seconds,
          .connect_seconds = job.flags.join.empty() ? 60.0 : 10.0,
          .is_guest = !job.leads(),
          .stop = launch::stop_descriptor()};
}

}  // namespace lockstep::job
