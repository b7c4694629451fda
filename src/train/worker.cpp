#include "train/worker.h"

#include <cstdio>

#include "observe/progress.h"
#include "parallel/world_of.h"

namespace lockstep::train {

observe::Json train_as_worker(const WorkerTask& task) {
  World world = world_of(launch::join_group(task.job, task.group), task.job.local_rank);
  try {
    Trainer trainer(task.recipe, world, task.data);
    if (world.rank() != 0) {
      observe::EventLog nowhere;
      return trainer.run(nullptr, nowhere, task.limits);
    }
    const RunFolder folder = task.open_folder();
    observe::EventLog events(folder.events());
    observe::Progress progress(stderr);
    events.listen([&](const observe::Json& event) { progress.show(event); });
    return trainer.run(&folder, events, task.limits);
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
