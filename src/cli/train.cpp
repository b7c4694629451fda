#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "base/units.h"
#include "cli/command.h"
#include "cli/tell.h"
#include "cli/train_flags.h"
#include "cli/train_recipe.h"
#include "cli/train_result.h"
#include "job/fit_job.h"
#include "job/training_job.h"
#include "launch/job.h"
#include "launch/worker_process.h"
#include "lockstep/error.h"
#include "run/outcome.h"

namespace lockstep::cli {
namespace {

// Whether this process, or a worker that it starts, writes the run's folder.
bool writes_folder(const TrainFlags& flags) {
  const std::optional<launch::Job> launched = launch::job_from_environment();
  return launched ? launched->rank == 0 : flags.placement.node_rank() == 0;
}

void check_flags(const TrainFlags& flags) {
  if (flags.stop_at_step && *flags.stop_at_step < 1)
    throw BadInput("--stop-at-step {}: expected 1 or more", *flags.stop_at_step);
  if (!(flags.silence >= 1 && flags.silence <= 1e6))
    throw BadInput("--silence {}: expected 1 to 1e6 seconds", flags.silence);
}

job::TrainingJob job_from(const TrainFlags& flags, RequestedRecipe asked) {
  using job::TrainingJob;
  using run::FolderOptions;
  TrainingJob job{.recipe = std::move(asked.recipe),
                  .departures = std::move(asked.departures),
                  .plugins = flags.plugins,
                  .placement = flags.placement,
                  .elastic = flags.elastic,
                  .transport = flags.transport,
                  .algorithm = flags.algorithm,
                  .silence_seconds = flags.silence};
  job.folder = {.name = run_name(flags, job.recipe),
                .begin = flags.resume ? FolderOptions::Begin::resume : FolderOptions::Begin::anew,
                .replace_recipe = flags.force || asked.is_longer};
  if (flags.out) job.folder.out = *flags.out;
  if (flags.stop_at_step) job.stop_at_step = *flags.stop_at_step;
  if (flags.force) job.additions = TrainingJob::Additions::any;
  if (flags.verbose) job.messages = TrainingJob::Messages::verbose;
  return job;
}

class TrainCommand final : public Command {
 public:
  explicit TrainCommand(CLI::App& parent)
      : Command(parent, "train", "Train the model of a recipe") {
    add_train_flags(app(), flags_);
  }
  int run() override;

 private:
  TrainFlags flags_;
};

// A resumed run keeps the batch that it has.
void take_auto_batch(TrainFlags& flags) {
  for (KeyFlag& flag : flags.keys) {
    if (flag.flag != "--batch" || flag.value != "auto") continue;
    flag.value.reset();
    flags.auto_batch = !flags.resume;
  }
}

// Processes that others started would each measure by themselves, and might find other batches.
void require_one_that_measures(const TrainFlags& flags) {
  const std::optional<launch::Job> launched = launch::job_from_environment();
  const bool is_launched = launched && launched->world > 1;
  if (!is_launched && flags.placement.nodes() == 1) return;
  const int workers =
      is_launched ? launched->world : flags.placement.workers() * flags.placement.nodes();
  throw BadInput(
      "--batch auto: {} measure by itself, and might find another batch; find it once, by "
      "`lockstep train --batch auto --workers {} --print-recipe` with the other flags of this "
      "command or by `lockstep fit`, and give all of them that recipe or its numbers",
      is_launched ? fmt::format("{} started {} processes, each of which would", launched->launcher,
                                launched->world)
                  : fmt::format("each of {} nodes would", flags.placement.nodes()),
      workers);
}

void choose_batch(const TrainFlags& flags, Recipe& recipe) {
  require_one_that_measures(flags);
  job::ChosenBatch chosen = job::with_largest_batch(
      {.recipe = recipe, .plugins = flags.plugins, .devices = flags.placement.devices},
      flags.placement.workers());
  recipe = std::move(chosen.recipe);
  tell(fmt::format("--batch auto: {}, in {} of {}{}", recipe.train.batch,
                   pieces_of(recipe) == 1 ? std::string("one pass")
                                          : fmt::format("{} passes", pieces_of(recipe)),
                   plural(recipe.train.batch / pieces_of(recipe), "sample"),
                   chosen.limited_by == job::LimitedBy::data
                       ? "; memory would do for more, but the data set has no more"
                       : ""));
}

int TrainCommand::run() {
  take_auto_batch(flags_);
  const ResultFormat format = flags_.json ? ResultFormat::json : ResultFormat::text;
  const bool writes = writes_folder(flags_);
  RequestedRecipe asked =
      requested_recipe(flags_, writes ? FolderAccess::here : FolderAccess::elsewhere);
  if (flags_.auto_batch) choose_batch(flags_, asked.recipe);
  if (flags_.print_recipe) {
    fmt::print("{}", to_toml(asked.recipe));
    return 0;
  }
  check_flags(flags_);
  const std::string repeated =
      job::flags_to_repeat(asked.recipe, flags_.plugins, flags_.placement, flags_.elastic);
  const bool goes_on = flags_.resume && !asked.is_longer;
  if (const auto finished = goes_on ? run::outcome_of(*flags_.out) : std::nullopt;
      finished && finished->kind == run::Outcome::Kind::ended) {
    if (!writes) return 0;
    tell(fmt::format("{} is already finished", *flags_.out));
    show_result(*finished, format, repeated);
    return 0;
  }
  const job::JobResult result = job::run_training(job_from(flags_, std::move(asked)));
  if (result.outcome) show_result(*result.outcome, format, repeated);
  if (result.process == job::JobResult::Process::forked_worker)
    launch::end_worker(result.exit_code);
  return result.exit_code;
}

}  // namespace

std::unique_ptr<Command> add_train(CLI::App& parent) {
  return std::make_unique<TrainCommand>(parent);
}

}  // namespace lockstep::cli
