#include "train/worker.h"

#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/host.h"
#include "net/tcp_rendezvous.h"
#include "observe/progress.h"
#include "parallel/world_of.h"
#include "train/state.h"

namespace lockstep::train {

namespace {

using observe::Json;

// Where the others are and how they talk.
Json about_workers(World& world, const launch::GroupOptions& options) {
  const std::vector<std::string> hosts = world.gather(host_identity());
  return {{"nodes", std::set<std::string>(hosts.begin(), hosts.end()).size()},
          {"algorithm", launch::algorithm_in_use(options, world.communicator())}};
}

// A worker on another host may have been told to write elsewhere, which it never does.
std::vector<std::string> warnings_of_other_folders(const std::vector<std::string>& asked,
                                                   const RunFolder& folder) {
  std::set<std::string> told = {asked.front(), ""};
  std::vector<std::string> warnings;
  for (size_t rank = 1; rank < asked.size(); ++rank)
    if (told.insert(asked[rank]).second)
      warnings.push_back(fmt::format(
          "rank {} was given --out {}, which is ignored: all is written by rank 0, to {}", rank,
          asked[rank], folder.path().string()));
  return warnings;
}

/// What a worker brings to its generation, and takes from it to the next.
struct Turn {
  Trainer::Limits limits;
  Json about = Json::object();  ///< more about the workers
  bool goes_on = false;         ///< there was a generation before
  std::optional<Safetensors>* memory = nullptr;
};

Json train_with(World world, const WorkerTask& task, const Turn& turn) {
  Trainer trainer(task.recipe, world, task.data);
  Json about = about_workers(world, task.group);
  about.update(turn.about);
  const std::vector<std::string> asked = world.gather(task.asked_out);
  if (world.rank() != 0) {
    observe::EventLog nowhere;
    return trainer.run(nullptr, nowhere, turn.limits, {.goes_on = turn.goes_on}, turn.memory);
  }
  const RunFolder folder = task.open_folder();
  std::vector<std::string> warnings = warnings_of_other_folders(asked, folder);
  if (!task.departures.empty()) {
    about["departures"] = fmt::format("{}", fmt::join(task.departures, "; "));
    warnings.push_back(
        fmt::format("no recipe repeats this run: {}", fmt::join(task.departures, "; ")));
  }
  observe::EventLog events(folder.events());
  observe::Progress progress(stderr);
  events.listen([&](const observe::Json& event) { progress.show(event); });
  return trainer.run(&folder, events, turn.limits,
                     {.workers = about, .warnings = warnings, .goes_on = turn.goes_on},
                     turn.memory);
}

Json train_together(World world, const WorkerTask& task, const Turn& turn) {
  try {
    return train_with(world, task, turn);
  } catch (const std::exception& error) {
    world.abort(error.what());
    throw;
  }
}

// A worker of a job whose workers come and go: one generation after the other, with what it
// remembers of the last.
class ElasticWorker {
 public:
  explicit ElasticWorker(const WorkerTask& task) : task_(task), member_(*task.membership) {}

  Json until_the_end() {
    elastic::Ready ready;
    while (true) {
      const auto order = member_.next(ready);
      if (const auto* dismissed = std::get_if<elastic::Dismiss>(&order)) return leave(*dismissed);
      const auto& go = std::get<elastic::Go>(order);
      if (is_guest() && ready.generation == 0)
        tell(fmt::format("joined the job as rank {} of {}", go.rank, go.world));
      ready = {.generation = go.generation};
      try {
        Json last = work(go);
        if (last["event"] != "regroup") {
          member_.say(elastic::Bye{});
          return last;
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

  Json work(const elastic::Go& go) {
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
    Turn turn{.limits = task_.limits,
              .about = {{"generation", go.generation}},
              .goes_on = go.generation > 1,
              .memory = &memory_};
    if (!go.why.empty()) turn.about["lost"] = go.why;
    turn.limits.regroup = &member_.regroup();
    turn.limits.stop = nullptr;  // the coordinator is told, and tells all
    turn.limits.after_step = [this](int64_t step) { member_.did_step(step); };
    if (go.last) turn.limits.stop_at_step = 0;
    return train_together(world, task_, turn);
  }

  // Whoever is lost, and whatever becomes of a meeting because of it: the next generation will do
  // better. Anything else would happen again.
  bool goes_on_after(const std::exception& error) {
    return !met_ || member_.must_leave() || dynamic_cast<const PeerLost*>(&error) != nullptr ||
           dynamic_cast<const Timeout*>(&error) != nullptr;
  }

  // Whoever leads the job tells why; all others need not.
  Json fail(const std::exception& error) {
    const auto* const known = dynamic_cast<const Error*>(&error);
    const int exit_code = known == nullptr ? 1 : known->exit_code();
    member_.say(elastic::Fail{error.what(), exit_code});
    return {{"event", "dismissed"}, {"exit_code", exit_code}};
  }

  Json leave(const elastic::Dismiss& dismissed) const {
    if (dismissed.refused) throw BadInput("this worker cannot join the job: {}", dismissed.why);
    if (is_guest() && !dismissed.why.empty()) tell("the job has failed: " + dismissed.why);
    return {{"event", "dismissed"}, {"exit_code", dismissed.why.empty() ? 0 : kLostOthers}};
  }

  const WorkerTask& task_;
  elastic::Member member_;
  std::optional<Safetensors> memory_;
  bool met_ = false;  ///< the others of the generation
};

}  // namespace

observe::Json train_as_worker(const WorkerTask& task) {
  if (task.membership) return ElasticWorker(task).until_the_end();
  World world = world_of(launch::join_group(task.job, task.group), task.job.local_rank);
  return train_together(world, task, {.limits = task.limits});
}

}  // namespace lockstep::train

extern "C" [[gnu::visibility("default")]] void lockstep_train_as_worker(
    const lockstep::train::WorkerTask& task, lockstep::observe::Json& last) {
  last = lockstep::train::train_as_worker(task);
}
