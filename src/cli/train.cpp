#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/control.h"
#include "cli/elastic_flags.h"
#include "cli/placement_flags.h"
#include "cli/shared_text.h"
#include "cli/stop_signals.h"
#include "cli/tell.h"
#include "cli/train_flags.h"
#include "cli/train_recipe.h"
#include "cli/train_result.h"
#include "cli/trainer_library.h"
#include "launch/group.h"
#include "launch/job.h"
#include "lockstep/error.h"
#include "observe/events.h"
#include "recipe/recipe.h"
#include "train/run_folder.h"
#include "train/training_data.h"
#include "train/worker.h"
#include "train/worker_count.h"
#include "transport/tcp/tcp_rendezvous.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using observe::Json;

train::RunFolder open_folder(const TrainFlags& flags, const Recipe& recipe) {
  if (flags.resume) {
    train::RunFolder folder = train::RunFolder::open(folder_to_resume(flags));
    if (flags.force) folder.keep(recipe);
    return folder;
  }
  return train::RunFolder::create(
      flags.out ? fs::path(*flags.out) : train::claim_run_folder("runs", run_name(flags, recipe)),
      recipe);
}

train::WorkerTask task_of(const TrainFlags& flags, const ResumedRecipe& asked,
                          const launch::Job& job) {
  train::WorkerTask task{
      .recipe = asked.recipe,
      .job = job,
      .group = {.connect = {.transport = launch::resolve_transport(flags.transport, job),
                            .silence_seconds = flags.silence,
                            .stop = stop_descriptor()},
                .algorithm = flags.algorithm,
                .tell = tell},
      .limits = {.stop = &stop_asked()},
      .asked_out = flags.out.value_or("")};
  task.departures = asked.departures;
  if (flags.verbose) task.group.tell_more = tell;
  if (flags.stop_at_step) task.limits.stop_at_step = *flags.stop_at_step;
  return task;
}

// Where a run's folder is known: told by the worker that opens it, for whoever sees it fail.
using Opened = std::function<void(const fs::path& folder)>;

int work(const train::WorkerTask& task, train::TrainAsWorker train_as_worker,
         const TrainFlags& flags) {
  Json last;
  try {
    train_as_worker(task, last);
  } catch (const transport::Interrupted& error) {
    tell(error.what());
    return stop_exit_code();
  }
  if (task.membership) return last.value("exit_code", stop_exit_code());
  if (task.job.rank == 0) show_result(last, flags.format());
  return last["event"] == "end" ? 0 : stop_exit_code();
}

// As a worker that no launcher of ours watches.
int work_watched_by_nobody(const std::function<int(const Opened&)>& start) {
  std::string out;
  try {
    return start([&](const fs::path& folder) { out = folder.string(); });
  } catch (const Error& error) {
    tell(error.what());
    tell_failure(out, error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    tell_failure(out, error.what());
    throw;
  }
}

int start_workers(const TrainFlags& flags,
                  const std::function<int(const launch::Job&, const Opened&)>& start) {
  SharedText out;
  return run_placed(
      flags.placement, launch::Prefixed::others,
      [&](const launch::Job& job) {
        return start(job, [&](const fs::path& folder) { out.set(folder.string()); });
      },
      [&](const launch::Ending& failure) { tell_failure(out.get(), failure.text()); });
}

ElasticJob elastic_job(const TrainFlags& flags, const Recipe& recipe, Facts facts) {
  return {.flags = flags.elastic,
          .placement = flags.placement,
          .facts = std::move(facts),
          .most_workers = static_cast<int>(shards_of(recipe)),
          .silence_seconds = flags.silence};
}

// What joins later must be what began: the same recipe, data, way to add up, and program.
Facts elastic_facts(const TrainFlags& flags, const Recipe& recipe,
                    const train::TrainingData& data) {
  Facts facts = result_values(recipe);
  facts.emplace_back("data of digest", data.splits.digest);
  facts.emplace_back("--transport", flags.transport);
  facts.emplace_back("--algorithm", flags.algorithm);
  facts.emplace_back("version", LOCKSTEP_VERSION);
  facts.emplace_back("the program", trainer_fingerprint());
  return facts;
}

// The folder of a run whose record is kept by one worker after another, which share this.
class ElasticFolder {
 public:
  /// Goes on with the folder of the worker before, if there was one.
  train::RunFolder open(const TrainFlags& flags, const Recipe& recipe) {
    if (!opened_.get().empty()) return train::RunFolder::open(opened_.get());
    // One that died in between has made it and told nothing.
    const fs::path made = tried_.get();
    if (!made.empty() && fs::exists(made / "recipe.toml") && !fs::exists(made / "events.jsonl")) {
      opened_.set(made.string());
      return train::RunFolder::open(made);
    }
    TrainFlags here = flags;
    if (!here.out) here.out = train::claim_run_folder("runs", run_name(flags, recipe)).string();
    tried_.set(*here.out);
    train::RunFolder folder = open_folder(here, recipe);
    opened_.set(folder.path().string());
    return folder;
  }

  /// "" until a worker has opened it.
  std::string path() const { return opened_.get(); }

 private:
  SharedText tried_;
  SharedText opened_;
};

// Workers come and go, and any of them may be the one that keeps the record: the result is told
// here.
int start_elastically(const TrainFlags& flags, const ResumedRecipe& asked,
                      std::shared_ptr<const train::TrainingData> data,
                      train::TrainAsWorker train_as_worker) {
  ElasticFolder out;
  const Recipe& recipe = asked.recipe;
  const ElasticJob job = elastic_job(flags, recipe, elastic_facts(flags, recipe, *data));
  const auto worker = [&](const launch::Job& mine, const elastic::MemberOptions& membership) {
    train::WorkerTask task = task_of(flags, asked, mine);
    task.data = data;
    task.membership = membership;
    task.open_folder = [&] {
      train::RunFolder folder = out.open(flags, recipe);
      write_control(folder.path(), membership);
      return folder;
    };
    return work(task, train_as_worker, flags);
  };
  const auto clean_up = [&] {
    if (!out.path().empty()) remove_control(out.path());
  };
  int code = 1;
  try {
    code = run_elastically(job, worker,
                           [&](const std::string& why) { tell_failure(out.path(), why); });
  } catch (const Error& error) {
    tell_failure(out.path(), error.what());
    clean_up();
    throw;
  }
  clean_up();
  const auto last = out.path().empty() ? std::nullopt : last_event(out.path());
  if (last && ((*last)["event"] == "end" || (*last)["event"] == "stopped"))
    show_result(*last, flags.format());
  else if (code > 128)
    tell_failure(out.path(), "its workers were killed");
  return code;
}

void check_flags(const TrainFlags& flags) {
  launch::check_algorithm(flags.algorithm, flags.transport);
  if (flags.stop_at_step && *flags.stop_at_step < 1)
    throw BadInput("--stop-at-step {}: expected 1 or more", *flags.stop_at_step);
  if (!(flags.silence >= 1 && flags.silence <= 1e6))
    throw BadInput("--silence {}: expected 1 to 1e6 seconds", flags.silence);
}

// Another number of workers would add up in another order.
void check_order_of_addition(const TrainFlags& flags, int workers,
                             std::vector<std::string>& departures) {
  if (flags.algorithm == "auto" || workers == 1) return;
  const auto algorithm = collective::parse_algorithm(flags.algorithm);
  if (algorithm.is_canonical()) return;
  if (!flags.force || flags.elastic.asked())
    throw BadInput(
        "--algorithm {}: the order in which it adds depends on the number of workers, and so would "
        "the model; leave it out{}",
        flags.algorithm,
        flags.elastic.asked() ? ", as workers come and go"
                              : ", or say --force to go on with a run that no recipe repeats");
  departures.push_back(fmt::format("added by {} on {} workers", flags.algorithm, workers));
}

// How many workers the whole job has.
int check_placement(const TrainFlags& flags, const std::optional<launch::Job>& launched) {
  launch::check(flags.placement);
  if (launched && flags.elastic.asked())
    throw BadInput(
        "--elastic: {} started this process and ends the job when a worker is lost; start it "
        "without "
        "that launcher, or go on from the last checkpoint by --resume",
        launched->launcher);
  if (!launched) return flags.placement.workers() * flags.placement.nodes();
  launch::check_against(flags.placement, *launched);
  return launched->world;
}

int train_and_tell(const TrainFlags& flags) {
  const std::optional<launch::Job> job = launch::job_from_environment();
  const int workers = check_placement(flags, job);
  const bool keeps_record = job ? job->rank == 0 : flags.placement.node_rank() == 0;
  ResumedRecipe asked =
      flags.resume ? recipe_to_resume(flags, keeps_record ? Record::here : Record::elsewhere)
                   : ResumedRecipe{recipe_from(flags, {}), {}};
  const Recipe& recipe = asked.recipe;
  if (flags.print_recipe) {
    fmt::print("{}", to_toml(recipe));
    return 0;
  }
  check_flags(flags);
  if (const auto end = flags.resume ? finished_run(*flags.out) : std::nullopt) {
    if (!keeps_record) return 0;
    tell(fmt::format("{} is finished", *flags.out));
    show_result(*end, flags.format());
    return 0;
  }
  // What all workers would find is found here, and told once.
  check(elastic_job(flags, recipe, {}));
  train::check_worker_count(recipe, workers);
  check_order_of_addition(flags, workers, asked.departures);

  // Both take a while, and workers started here share both.
  auto trainer = load_trainer();
  const auto data = train::load_training_data(recipe);
  const train::TrainAsWorker train_as_worker = trainer.get();
  const auto start = [&](const launch::Job& mine, const Opened& opened) {
    stop_on_signals();
    train::WorkerTask task = task_of(flags, asked, mine);
    task.data = data;
    task.open_folder = [&] {
      train::RunFolder folder = open_folder(flags, recipe);
      opened(folder.path());
      return folder;
    };
    return work(task, train_as_worker, flags);
  };
  if (flags.elastic.asked()) return start_elastically(flags, asked, data, train_as_worker);
  if (!job && workers > 1) return start_workers(flags, start);
  return work_watched_by_nobody([&](const Opened& opened) {
    return start(job.value_or(launch::Job{.launcher = "nobody"}), opened);
  });
}

}  // namespace

Command add_train(CLI::App& parent) {
  auto flags = std::make_shared<TrainFlags>();
  CLI::App* app = parent.add_subcommand("train", "Train a model as a recipe says");
  app->add_option("RECIPE", flags->recipe, "a TOML file; without one, convnet on fashion-mnist")
      ->type_name("");
  for (KeyFlag& flag : flags->keys)
    app->add_option(flag.flag, flag.value, flag.about)->type_name(flag.kind);
  app->add_option("--set", flags->settings, "any recipe key: --set optimizer.momentum=0.95")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  add_placement_flags(*app, flags->placement);
  add_elastic_flags(*app, flags->elastic);
  app->add_option("--transport", flags->transport,
                  fmt::format("{} or auto (default)", fmt::join(launch::transport_names(), ", ")))
      ->type_name("NAME");
  app->add_option("--algorithm", flags->algorithm,
                  fmt::format("of all_reduce: {} or auto (default)",
                              fmt::join(collective::algorithms().names(), ", ")))
      ->type_name("NAME");
  app->add_option(
         "--out", flags->out,
         "the run's folder (default: runs/NAME-N, where NAME is the recipe's, else DATA-MODEL)")
      ->type_name("DIR");
  app->add_flag("--resume", flags->resume, "go on with the run in --out from its last checkpoint");
  app->add_flag(
      "--force", flags->force,
      "with --resume or --algorithm ring or engine: also where the result will not be the "
      "recipe's alone");
  app->add_option("--stop-at-step", flags->stop_at_step, "stop there, with a checkpoint")
      ->type_name("N");
  app->add_option("--silence", flags->silence,
                  fmt::format("until a worker that says nothing is lost (default {:g})",
                              launch::ConnectOptions{}.silence_seconds))
      ->type_name("SECONDS");
  app->add_flag("--print-recipe", flags->print_recipe,
                "print the whole recipe, every key with its meaning, and train nothing");
  app->add_flag("--verbose", flags->verbose, "say what --algorithm auto measured");
  app->add_flag("--json", flags->json, "print the result as one JSON object on stdout");
  app->footer(
      "Ctrl-C ends after the step under way, with a checkpoint.\n"
      "Examples:\n"
      "  lockstep train recipes/fashion-convnet.toml\n"
      "  lockstep train recipes/fashion-convnet.toml --workers 2\n"
      "  lockstep train --data cifar10 --model resnet20 --epochs 2 --out runs/first\n"
      "  lockstep train --resume --out runs/first\n"
      "  lockstep train --model resnet20 --data cifar10 --print-recipe > mine.toml\n"
      "  lockstep train --data npy:my-data --model mlp --set optimizer.name=adamw --lr 0.001 "
      "--json");
  return {app, [flags] { return train_and_tell(*flags); }};
}

}  // namespace lockstep::cli
