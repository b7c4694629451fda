#include "train/worker.h"

#include <fmt/ranges.h>

#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/host.h"
#include "model/models.h"
#include "net/tcp_rendezvous.h"
#include "objective/objectives.h"
#include "observe/progress.h"
#include "parallel/world_of.h"
#include "run/control.h"
#include "train/pass_meter.h"
#include "train/placement.h"
#include "train/plugins.h"
#include "train/state.h"

namespace lockstep::train {

namespace {

using run::Json;
using run::Outcome;

// The number of hosts and the all-reduce algorithm.
Json about_workers(World& world, const launch::GroupOptions& options) {
  const std::vector<std::string> hosts = world.all_gather(host_identity());
  return {{"nodes", std::set<std::string>(hosts.begin(), hosts.end()).size()},
          {"algorithm", launch::algorithm_in_use(options, world.communicator())}};
}

// Workers on other hosts may have another --out, which is not used.
std::vector<std::string> warnings_of_other_folders(const std::vector<std::string>& asked,
                                                   const run::RunFolder& folder) {
  std::set<std::string> told = {asked.front(), ""};
  std::vector<std::string> warnings;
  for (size_t rank = 1; rank < asked.size(); ++rank)
    if (told.insert(asked[rank]).second)
      warnings.push_back(
          fmt::format("--out {1} of rank {0} is ignored: rank 0 writes all files, to {2}", rank,
                      asked[rank], folder.path().string()));
  return warnings;
}

/// What a worker passes to a generation, and from it to the next one.
struct Generation {
  Trainer::Limits limits;
  Json about = Json::object();  ///< added to the workers' description
  bool goes_on = false;         ///< it is not the first generation
  std::optional<run::Safetensors>* memory = nullptr;
};

// The run's folder, events and progress line, which only rank 0 has.
class Output {
 public:
  Output(World& world, const WorkerTask& task, const Generation& turn, const Trainer& trainer) {
    circumstances_ = {.workers = about_workers(world, task.group), .goes_on = turn.goes_on};
    circumstances_.workers.update(turn.about);
    if (!task.plugins_sha256.empty())
      circumstances_.workers["plugins_sha256"] = task.plugins_sha256;
    const std::vector<std::string> asked = world.all_gather(task.asked_out);
    if (world.rank() != 0) return;
    folder_.emplace(task.folder->open(task.recipe));
    if (task.membership)
      run::write_control(folder_->path(),
                         {task.membership->host, task.membership->port, task.membership->key});
    circumstances_.warnings = warnings_of_other_folders(asked, *folder_);
    if (!task.departures.empty()) {
      const std::string why = fmt::format("{}", fmt::join(task.departures, "; "));
      circumstances_.workers["departures"] = why;
      circumstances_.warnings.push_back("the recipe alone does not reproduce this run: " + why);
    }
    events_.emplace(folder_->events());
    progress_.emplace(stderr, trainer.shown_metrics());
    events_->listen([this](const Json& event) { progress_->show(event); });
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  const run::RunFolder* folder() const { return folder_ ? &*folder_ : nullptr; }
  run::EventLog& events() { return events_ ? *events_ : nowhere_; }
  const Circumstances& circumstances() const { return circumstances_; }

 private:
  Circumstances circumstances_;
  std::optional<run::RunFolder> folder_;
  std::optional<observe::Progress> progress_;
  std::optional<run::EventLog> events_;
  run::EventLog nowhere_;
};

Outcome train_with(World world, const WorkerTask& task, const Generation& turn) {
  try {
    Trainer trainer(task.recipe, world, task.data, {{"the plugins' digest", task.plugins_sha256}},
                    turn.goes_on ? Start::again : task.start, task.devices);
    Output output(world, task, turn, trainer);
    return trainer.run(output.folder(), output.events(), turn.limits, output.circumstances(),
                       turn.memory);
  } catch (const std::exception& error) {
    world.abort(error.what());
    throw;
  } catch (...) {  // by a plugin
    const char* const why =
        "a model, data set or objective threw an exception that is not a std::exception";
    world.abort(why);
    throw Error(why);
  }
}

// A worker of an elastic job: trains one generation after another, and keeps the state in memory
// between them.
class ElasticWorker {
 public:
  explicit ElasticWorker(const WorkerTask& task) : task_(task), member_(*task.membership) {}

  Outcome until_the_end() {
    elastic::Ready ready;
    while (true) {
      const auto order = member_.next(ready);
      if (const auto* dismissed = std::get_if<elastic::Dismiss>(&order)) return leave(*dismissed);
      const auto& go = std::get<elastic::Go>(order);
      if (is_guest() && ready.generation == 0)
        tell(fmt::format("joined the job as rank {} of {}", go.rank, go.world));
      ready = {.generation = go.generation};
      try {
        Outcome outcome = work(go);
        if (outcome.kind != Outcome::Kind::regrouped) {
          member_.say(elastic::Bye{});
          return outcome;
        }
      } catch (const std::exception& error) {
        if (!goes_on_after(error)) return fail(error);
        ready.why = error.what();
      }
      ready.step = memory_ ? step_of(*memory_) : -1;
    }
  }

 private:
  bool is_guest() const { return task_.membership->is_guest; }
  void tell(const std::string& message) const {
    if (task_.group.tell) task_.group.tell(message);
  }

  Outcome work(const elastic::Go& go) {
    met_ = false;
    launch::Job job = task_.job;
    job.rank = go.rank;
    job.world = go.world;
    job.master_port = go.port;
    job.key = fmt::format("{}/{}", task_.job.key, go.generation);
    launch::GroupOptions options = task_.group;
    options.connect.stop = member_.interrupted();
    World world = world_of(launch::join_group(job, options), job.local_rank);
    met_ = true;
    member_.on_leave([world](const std::string& why) mutable { world.abort(why); });
    Generation turn{.limits = task_.limits,
                    .about = {{"generation", go.generation}},
                    .goes_on = go.generation > 1,
                    .memory = &memory_};
    if (!go.why.empty()) turn.about["lost"] = go.why;
    turn.limits.regroup = &member_.regroup();
    turn.limits.stop = nullptr;  // stop requests go through the coordinator
    turn.limits.steps_done = &member_.steps_done();
    if (go.last) turn.limits.stop_at_step = 0;
    return train_with(world, task_, turn);
  }

  // After a lost worker or a failed rendezvous the next generation continues. Any other error would
  // occur again.
  bool goes_on_after(const std::exception& error) {
    return !met_ || member_.must_leave() || dynamic_cast<const PeerLost*>(&error) != nullptr ||
           dynamic_cast<const Timeout*>(&error) != nullptr;
  }

  // The coordinator reports the error.
  Outcome fail(const std::exception& error) {
    const auto* const known = dynamic_cast<const Error*>(&error);
    const int exit_code = known == nullptr ? 1 : known->exit_code();
    member_.say(elastic::Fail{error.what(), exit_code});
    return {Outcome::Kind::dismissed, {}, exit_code};
  }

  Outcome leave(const elastic::Dismiss& dismissed) const {
    if (dismissed.refused) throw BadInput("the job refused this worker: {}", dismissed.why);
    if (is_guest() && !dismissed.why.empty()) tell("the job has failed: " + dismissed.why);
    return {Outcome::Kind::dismissed, {}, dismissed.why.empty() ? 0 : kLostOthers};
  }

  const WorkerTask& task_;
  elastic::Member member_;
  std::optional<run::Safetensors> memory_;
  bool met_ = false;  ///< the others of the generation
};

}  // namespace

run::Outcome train_as_worker(const WorkerTask& given) {
  WorkerTask task = given;
  if (task.recipe.device.kind == "cuda")
    task.group.connect.device = device_for(task.recipe, task.job.local_rank, task.devices).index();
  if (task.membership) return ElasticWorker(task).until_the_end();
  World world = world_of(launch::join_group(task.job, task.group), task.job.local_rank);
  return train_with(world, task, {.limits = task.limits});
}

namespace {

void check_names(const std::string& model, const std::string& objective) {
  try {
    model::models().at(model);
    objective::objectives().at(objective);
  } catch (const BadInput& error) {
    throw BadInput("{}; to use a plugin's, give --load LIBRARY", error.what());
  }
}

std::string list(const std::string& table) {
  return table == "models" ? model::models().help() : objective::objectives().help();
}

constexpr TrainerLibrary kLibrary = {.train_as_worker = train_as_worker,
                                     .register_linked_plugins = register_linked_plugins,
                                     .load_plugin = load_plugin,
                                     .check_names = check_names,
                                     .list = list,
                                     .evaluate_model = evaluate_model,
                                     .predict = predict,
                                     .libtorch_facts = libtorch_facts,
                                     .measure_matpow = matpow::measure,
                                     .make_pass_meter = make_pass_meter};

}  // namespace
}  // namespace lockstep::train

extern "C" [[gnu::visibility("default")]] const lockstep::train::TrainerLibrary*
lockstep_trainer_library() {
  return &lockstep::train::kLibrary;
}
