#include "train/worker.h"

#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "observe/progress.h"
#include "parallel/world_of.h"
#include "transport/host.h"

namespace lockstep::train {

namespace {

using observe::Json;

// Where the others are and how they talk.
Json about_workers(World& world, const launch::GroupOptions& options) {
  const std::vector<std::string> hosts = world.gather(transport::host_identity());
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

}  // namespace

observe::Json train_as_worker(const WorkerTask& task) {
  World world = world_of(launch::join_group(task.job, task.group), task.job.local_rank);
  try {
    Trainer trainer(task.recipe, world, task.data);
    const Json about = about_workers(world, task.group);
    const std::vector<std::string> asked = world.gather(task.asked_out);
    if (world.rank() != 0) {
      observe::EventLog nowhere;
      return trainer.run(nullptr, nowhere, task.limits);
    }
    const RunFolder folder = task.open_folder();
    observe::EventLog events(folder.events());
    observe::Progress progress(stderr);
    events.listen([&](const observe::Json& event) { progress.show(event); });
    return trainer.run(&folder, events, task.limits,
                       {.workers = about, .warnings = warnings_of_other_folders(asked, folder)});
  } catch (const std::exception& error) {
    world.abort(error.what());
    throw;
  }
}

}  // namespace lockstep::train

extern "C" [[gnu::visibility("default")]] void lockstep_train_as_worker(
    const lockstep::train::WorkerTask& task, lockstep::observe::Json& last) {
  last = lockstep::train::train_as_worker(task);
}
