// Words: the *launcher* is the process that starts workers and watches them. If another launcher
// (mpirun, srun, torchrun) started this process, or there is only one worker, this process is the
// worker itself. `launch::start_workers` returns in the launcher and in every worker that it forks.
#include "job/training_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <utility>

#include "collective/plan/all_reduce.h"
#include "data/training_data.h"
#include "device/kinds.h"
#include "device/visible.h"
#include "job/exit_guard.h"
#include "job/trainer_library.h"
#include "launch/elastic_workers.h"
#include "launch/stop_signals.h"
#include "launch/workers.h"
#include "lockstep/error.h"
#include "net/tcp_rendezvous.h"
#include "pipeline/workers.h"
#include "run/control.h"
#include "train/worker.h"

namespace lockstep::job {
namespace {

using run::Outcome;

void tell(const std::string& message) {
  std::fputs(fmt::format("lockstep: {}\n", message).c_str(), stderr);
}

// Everything that a worker needs, loaded once and shared by forked workers.
struct PreparedJob {
  TrainingJob job;
  const train::TrainerLibrary* library;
  std::shared_ptr<const data::TrainingData> data;
  std::unique_ptr<run::SharedFolder> folder;
  std::string plugins_sha256;  ///< empty without plugins
};

void tell_failure(const PreparedJob& ready, const std::string& message) {
  const TrainingJob& job = ready.job;
  job::tell_failure(ready.folder->path(), message,
                    flags_to_repeat(job.recipe, job.plugins, job.placement, job.elastic));
}

ElasticJob elastic_job(const TrainingJob& job) {
  return {.flags = job.elastic,
          .placement = job.placement,
          .most_workers = static_cast<int>(shards_of(job.recipe)),
          .silence_seconds = job.silence_seconds};
}

// The number of workers of the whole job.
int world_size(const TrainingJob& job, const std::optional<launch::Job>& launched) {
  launch::check(job.placement);
  if (launched && job.elastic.asked())
    throw BadInput(
        "--elastic: {} started this process and ends the whole job when a worker is lost; start "
        "it without that launcher, or leave --elastic out and continue by --resume after a loss",
        launched->launcher);
  if (!launched) return job.placement.workers() * job.placement.nodes();
  launch::check_against(job.placement, *launched);
  return launched->world;
}

// Refuses algorithms whose order of addition depends on the number of workers.
void check_order_of_addition(TrainingJob& job, int workers) {
  if (job.algorithm == "auto" || workers == 1) return;
  if (collective::parse_algorithm(job.algorithm).is_canonical()) return;
  if (job.additions == TrainingJob::Additions::canonical || job.elastic.asked())
    throw BadInput(
        "--algorithm {}: the order in which it adds depends on the number of workers, and so would "
        "the model; leave it out{}",
        job.algorithm,
        job.elastic.asked() ? ": the number of workers of an elastic job changes"
                            : ", or use --force (then no recipe alone reproduces the result)");
  job.departures.push_back(fmt::format("added by {} on {} workers", job.algorithm, workers));
}

// With PowerSGD each worker keeps what it has not sent of a step's gradients, for the next step.
void check_power_sgd(const TrainingJob& job, int workers) {
  if (job.recipe.train.compress != "power_sgd") return;
  if (job.elastic.asked())
    throw BadInput(
        "train.compress = \"power_sgd\": each worker keeps the error that it has not sent yet, so "
        "workers cannot join or leave; leave --elastic out");
  const int pipelines = pipeline::pipelines_of(pipeline_shape(job.recipe), workers);
  if (const int64_t shards = shards_of(job.recipe); shards != pipelines)
    throw BadInput(
        "train.compress = \"power_sgd\": needs one shard per worker; there are {} workers and {} "
        "shards (train.shards): set it to the number of workers",
        pipelines, shards);
}

// Which worker has which stage is fixed when a job starts.
void check_stages(const TrainingJob& job) {
  if (job.recipe.parallel.stages > 1 && job.elastic.asked())
    throw BadInput(
        "--elastic: workers of a job with stages cannot join or leave, since each has another part "
        "of the model; leave --elastic out and continue by --resume after a loss, or leave "
        "--stages out");
}

void check_zero(const TrainingJob& job) {
  if (job.recipe.parallel.zero && job.elastic.asked())
    throw BadInput(
        "--elastic: workers of a job with parallel.zero (--zero) cannot join or leave, since each "
        "has a share of the optimizer's state that no other has; leave --elastic out and continue "
        "by --resume after a loss, or leave --zero out");
}

void check_data_parallel(const TrainingJob& job) {
  if (is_data_parallel(job.recipe) && job.elastic.asked())
    throw BadInput(
        "--elastic: parallel.mode = \"dp\" (--parallel dp) is one worker with several devices, so "
        "that no worker can join or leave; leave --elastic out and continue by --resume after a "
        "loss, or use --parallel ddp");
}

// How many devices LibTorch finds is seen by workers only.
void check_devices(const TrainingJob& job, const std::optional<launch::Job>& launched) {
  std::optional<DeviceSelection> selection;
  if (!job.placement.devices.empty()) selection = parse_devices(job.placement.devices);
  const DeviceKindRow& kind = device_kinds().at(job.recipe.device.kind);
  if (kind.count == DeviceKindRow::Count::by_libtorch) return;
  const std::vector<int> visible = visible_devices(
      kind.name, kMostVirtualDevices,
      kind.count == DeviceKindRow::Count::as_asked ? visible_variables() : VisibleVariables(),
      selection);
  if (kind.count == DeviceKindRow::Count::as_asked && is_data_parallel(job.recipe)) {
    const auto all =
        all_devices_of_worker(kind.name, kMostVirtualDevices, visible_variables(), selection);
    return check_device_count(job.recipe, std::ssize(all));
  }
  if (kind.count != DeviceKindRow::Count::as_asked || launched) return;
  const int workers = job.placement.workers();
  const int stages =
      pipeline::stages_of_worker(pipeline_shape(job.recipe), workers * job.placement.nodes());
  if (stages > 1)
    device_of_stage(kind.name, visible, stages - 1, stages);
  else
    device_of_worker(kind.name, visible, workers - 1, workers);
}

// Checks here what all workers would check, so that an error is reported once.
void check(TrainingJob& job, int workers) {
  launch::check_algorithm(job.algorithm, job.transport);
  check(elastic_job(job));
  check_stages(job);
  check_zero(job);
  check_data_parallel(job);
  check_worker_count(job.recipe, workers);
  check_order_of_addition(job, workers);
  check_power_sgd(job, workers);
}

PreparedJob prepare(TrainingJob job) {
  // The library is loaded in a thread while the data are read here. Plugins need the library first.
  auto loading = load_trainer();
  const train::TrainerLibrary* library = nullptr;
  std::string plugins_sha256;
  if (has_plugins(job.plugins)) {
    library = loading.get();
    plugins_sha256 = load_plugins(*library, job.plugins);
  }
  auto data = data::load_training_data(job.recipe.data, job.recipe.train.batch,
                                       static_cast<uint64_t>(job.recipe.train.seed));
  if (library == nullptr) library = loading.get();
  library->check_names(job.recipe.model.name, job.recipe.objective.name);
  auto folder = std::make_unique<run::SharedFolder>(job.folder);
  return {std::move(job), library, std::move(data), std::move(folder), std::move(plugins_sha256)};
}

train::WorkerTask task_of(const PreparedJob& ready, const launch::Job& mine) {
  const TrainingJob& job = ready.job;
  train::WorkerTask task{
      .recipe = job.recipe,
      .data = ready.data,
      .job = mine,
      .group = {.connect = {.transport = launch::resolve_transport(job.transport, mine),
                            .silence_seconds = job.silence_seconds,
                            .stop = launch::stop_descriptor()},
                .algorithm = job.algorithm,
                .tell = tell},
      .limits = {.stop = &launch::stop_asked(), .stop_at_step = job.stop_at_step},
      .devices = job.placement.devices,
      .folder = ready.folder.get(),
      .start = job.folder.begin == run::FolderOptions::Begin::resume ? train::Start::again
                                                                     : train::Start::anew,
      .asked_out = job.folder.out ? job.folder.out->string() : "",
      .departures = job.departures,
      .plugins_sha256 = ready.plugins_sha256};
  if (job.messages == TrainingJob::Messages::verbose) task.group.tell_more = tell;
  return task;
}

// What this process is: a worker with a task, or a launcher whose workers have ended.
struct Role {
  std::optional<train::WorkerTask> task = {};
  JobResult result = {};  ///< the launcher's; in a worker only `process` is set
};

Role as_forked_worker(train::WorkerTask task) {
  return {std::move(task), {.process = JobResult::Process::forked_worker}};
}

// A worker without a Lockstep launcher.
Role become_worker(const PreparedJob& ready, const launch::Job& mine) {
  launch::stop_on_signals();
  return {task_of(ready, mine)};
}

bool came_to_something(const PreparedJob& ready) {
  const std::string out = ready.folder->path();
  return !out.empty() && run::outcome_of(out).has_value();
}

bool could_be_elastic(const Recipe& recipe) {
  return recipe.parallel.stages == 1 && recipe.parallel.mode != "dp" && !recipe.parallel.zero &&
         recipe.train.compress != "power_sgd";
}

Role start_workers(const PreparedJob& ready) {
  const std::vector<launch::Job> jobs = launch::jobs_here(ready.job.placement);
  const int first = jobs.front().rank;
  const launch::StartedWorkers started =
      launch::start_workers({.count = ready.job.placement.workers(),
                             .first_rank = first,
                             .prefixed = launch::Prefixed::others});
  if (started.rank) {
    launch::stop_on_signals();
    return as_forked_worker(task_of(ready, jobs[static_cast<size_t>(*started.rank - first)]));
  }
  if (const launch::Ending* const failure = launch::first_failure(started.endings)) {
    tell(failure->text());
    tell_failure(ready, failure->text());
    if (failure->was_killed() && could_be_elastic(ready.job.recipe))
      tell("with --elastic, the other workers go on when one is lost");
  }
  JobResult result{launch::exit_code_of(started.endings)};
  if (result.exit_code == 0 && first == 0 && !came_to_something(ready)) {
    tell(
        "all workers ended with exit code 0 before the run was finished: does a plugin call "
        "exit()?");
    result.exit_code = 1;
  }
  return {.result = result};
}

// A worker that joins must have the same recipe, data, transport, algorithm and program.
Facts elastic_facts(const PreparedJob& ready) {
  Facts facts = result_values(ready.job.recipe);
  facts.emplace_back("data digest", ready.data->digest);
  facts.emplace_back("--transport", ready.job.transport);
  facts.emplace_back("--algorithm", ready.job.algorithm);
  facts.emplace_back("version", LOCKSTEP_VERSION);
  facts.emplace_back("program fingerprint", trainer_fingerprint());
  facts.emplace_back("plugins' digest", ready.plugins_sha256);
  return facts;
}

// Any local worker may have been rank 0, which writes the run's events: the outcome is read from
// them.
JobResult result_of_elastic(const PreparedJob& ready, const ElasticJob& elastic,
                            const launch::ElasticEnding& ending) {
  const std::string out = ready.folder->path();
  if (!out.empty()) run::remove_control(out);
  if (ending.gave_up)
    tell(fmt::format("stopped: fewer than {} workers were left (--min-workers)", elastic.least()));
  if (!ending.failure.empty()) {
    tell(ending.failure);
    tell_failure(ready, ending.failure);
  }
  JobResult result{ending.exit_code};
  if (!out.empty()) result.outcome = run::outcome_of(out);
  if (!result.outcome && ending.exit_code > 128) tell_failure(ready, "the workers were killed");
  return result;
}

Role start_elastic_workers(const PreparedJob& ready) {
  ElasticJob elastic = elastic_job(ready.job);
  elastic.facts = elastic_facts(ready);
  const launch::Job address = coordinator_address(elastic);
  launch::ElasticOptions options{.places = ready.job.placement.workers()};
  if (elastic.leads()) options.lead = coordinator_options(elastic, address);
  launch::StartedElastic started;
  try {
    started = launch::start_elastic_workers(options);
  } catch (const Error& error) {
    tell_failure(ready, error.what());
    if (!ready.folder->path().empty()) run::remove_control(ready.folder->path());
    throw;
  }
  if (!started.place) return {.result = result_of_elastic(ready, elastic, started.ending)};
  if (!elastic.leads()) launch::stop_on_signals();
  launch::Job mine = address;
  mine.local_rank = *started.place;
  train::WorkerTask task = task_of(ready, mine);
  task.membership = member_options(elastic, address);
  return as_forked_worker(std::move(task));
}

JobResult result_of(Outcome outcome, const Role& role) {
  JobResult result = role.result;
  if (outcome.kind == Outcome::Kind::dismissed) {
    result.exit_code = outcome.exit_code;
    return result;
  }
  result.exit_code = outcome.kind == Outcome::Kind::ended ? 0 : launch::stop_exit_code();
  // In an elastic job any local worker may be rank 0 at the end: the launcher prints the result.
  if (!role.task->membership && role.task->job.rank == 0) result.outcome = std::move(outcome);
  return result;
}

}  // namespace

JobResult run_training(TrainingJob job) {
  const std::optional<launch::Job> launched = launch::job_from_environment();
  const int workers = world_size(job, launched);
  check(job, workers);
  check_devices(job, launched);
  const PreparedJob ready = prepare(std::move(job));
  Role role = ready.job.elastic.asked() ? start_elastic_workers(ready)
              : !launched && workers > 1
                  ? start_workers(ready)
                  : become_worker(ready, launched.value_or(launch::Job{.launcher = "nobody"}));
  if (!role.task) return role.result;
  const ExitGuard guard;
  try {
    return result_of(ready.library->train_as_worker(*role.task), role);
  } catch (const net::Interrupted& error) {
    tell(error.what());
    role.result.exit_code = launch::stop_exit_code();
    return role.result;
  } catch (const std::exception& error) {
    // The launcher of a forked worker reports why it failed.
    if (role.result.process == JobResult::Process::forked_worker) throw;
    const auto* const known = dynamic_cast<const Error*>(&error);
    if (known != nullptr) tell(known->what());
    tell_failure(ready, error.what());
    if (known == nullptr) throw;
    return {known->exit_code()};
  }
}

std::string flags_to_repeat(const Recipe& recipe, const std::vector<std::string>& plugins,
                            const launch::PlacementFlags& placement, const ElasticFlags& elastic) {
  std::string flags;
  for (const std::string& plugin : plugins) flags += fmt::format(" --load {}", plugin);
  if (placement.workers() > 1 || elastic.on)
    flags += fmt::format(" --workers {}", placement.workers());
  if (!placement.devices.empty()) flags += fmt::format(" --devices {}", placement.devices);
  if (elastic.on) flags += " --elastic";
  // What its workers have not sent yet is lost, so that the result is another one.
  if (recipe.train.compress == "power_sgd") flags += " --force";
  return flags;
}

void tell_how_to_resume(const std::string& out, const std::string& repeated_flags) {
  std::fputs(fmt::format("resume with:  lockstep train --resume --out {}{}\n", out, repeated_flags)
                 .c_str(),
             stderr);
}

void tell_failure(const std::string& out, const std::string& message,
                  const std::string& repeated_flags) {
  if (out.empty()) return;
  const run::Remains remains = run::record_failure(out, message);
  if (remains == run::Remains::checkpoint) tell_how_to_resume(out, repeated_flags);
  if (remains == run::Remains::no_checkpoint)
    tell(fmt::format(
        "{} has no checkpoint yet: to start again, delete it or choose another folder with --out",
        out));
}

}  // namespace lockstep::job
