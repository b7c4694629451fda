#include "train/trainer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "lockstep/error.h"
#include "run/checkpoints.h"
#include "run/model_description.h"
#include "train/divergence.h"
#include "train/evaluate.h"
#include "train/reporter.h"
#include "train/setup.h"
#include "train/step.h"

namespace lockstep::train {
namespace {

using objective::Totals;
using observe::Span;
using run::Json;
using run::Outcome;
using run::Safetensors;

double highest_rate(const Recipe& recipe, int workers) {
  return recipe.optimizer.scale_lr_by_workers ? recipe.optimizer.lr * workers : recipe.optimizer.lr;
}

StepParts parts_of(const Setup& setup) {
  return {.model = setup.parts,
          .parameters = setup.parameters,
          .objective = setup.objective,
          .batches = setup.batches,
          .schedule = optim::Schedule(setup.recipe.schedule,
                                      highest_rate(setup.recipe, setup.grid->pipelines()),
                                      setup.total_steps, setup.steps_per_epoch),
          .shards = setup.shards,
          .grid = setup.grid,
          .world = setup.world};
}

// The start event of the run before it was stopped.
Json last_start(const run::RunFolder& folder) {
  Json last = Json::object();
  for (Json& event : run::read_events(folder.events()))
    if (event.value("event", "") == "start") last = std::move(event);
  return last;
}

/// A run, or one generation of an elastic run.
class Run {
 public:
  /// `memory` is the state that this worker has from an earlier generation, if any.
  Run(Setup& setup, const run::RunFolder* folder, run::EventLog& events,
      const Circumstances& circumstances, const Safetensors* memory);

  Outcome to_its_end(const Trainer::Limits& limits);

  /// Captures the state after the last finished step; an unfinished step is rolled back.
  void remember(Safetensors& into);

 private:
  void take_up(const Safetensors* memory);
  void load_checkpoint();
  void find_best_weights(const std::vector<run::TensorView>& weights);
  void take_state_of(int donor);
  void take_parts_of_checkpoint();
  void train_one_step();
  void settle();
  void evaluate_model();
  Evaluation evaluated_on(const std::shared_ptr<const Dataset>& split);
  EvaluatedModel evaluated_model() const;
  int64_t evaluated_at_once() const;
  void note_best();
  std::string write_weights(std::filesystem::path (run::RunFolder::*file)() const);
  bool patience_is_over() const;
  void warn_of_untrained();
  void report_stragglers();
  void save_checkpoint();
  void report_checkpoints();
  void await_checkpoints();
  void finish_checkpoints();
  run::Metadata about_the_model() const;
  Outcome stop();
  Outcome regroup();
  Outcome end();

  // Constant after construction.
  Setup& setup_;
  const Recipe& recipe_;
  const run::RunFolder* const folder_;  ///< rank 0's; nothing on other ranks
  std::optional<run::Checkpoints> checkpoints_;
  std::optional<run::CheckpointWriter> writer_;

  // Changes with every step.
  Step step_;
  Reporter reporter_;
  Safetensors loaded_;  ///< the checkpoint, on rank 0, until stages have taken what they train
  ResumePoint point_;
  Evaluation evaluated_;  ///< the last one, of the validation split or else the test split
  Stopwatch since_clocked_;
  int64_t last_checkpoint_step_ = -1;
  StragglerReport all_stragglers_;  ///< since this process started or resumed the run
  Stopwatch since_begun_;
  Stopwatch since_stragglers_;
};

Run::Run(Setup& setup, const run::RunFolder* folder, run::EventLog& events,
         const Circumstances& circumstances, const Safetensors* memory)
    : setup_(setup),
      recipe_(setup.recipe),
      folder_(folder),
      step_(recipe_, parts_of(setup)),
      reporter_(setup, step_.scorecard(), folder, events, circumstances) {
  if (folder != nullptr) {
    checkpoints_.emplace(folder->checkpoints(), kept_checkpoints(recipe_).newest);
    writer_.emplace(*checkpoints_);
  }
  take_up(memory);
}

Outcome Run::to_its_end(const Trainer::Limits& limits) {
  setup_.model->train();
  setup_.loader.seek(0, point_.step);
  since_clocked_.restart();
  since_begun_.restart();
  since_stragglers_.restart();
  reporter_.digest(point_.step);
  while (true) {
    if (point_.settled < point_.step) settle();
    if (point_.step == setup_.total_steps || patience_is_over()) return end();
    if (step_.granted(TogetherRequest::stop) || point_.step >= limits.stop_at_step) return stop();
    if (step_.granted(TogetherRequest::regroup)) return regroup();
    if (limits.stop != nullptr && *limits.stop) step_.request(TogetherRequest::stop);
    if (limits.regroup != nullptr && *limits.regroup) step_.request(TogetherRequest::regroup);
    train_one_step();
    if (limits.steps_done != nullptr) *limits.steps_done = point_.step;
  }
}

void Run::train_one_step() {
  const Stopwatch stopwatch;
  const data::LoadedBatch* batch = nullptr;
  {
    observe::ScopedSpan span(point_.spent.spans, Span::data);
    batch = &setup_.loader.next();
  }
  const Totals totals = step_.run(*batch, point_.step, point_.spent.spans);
  check_loss(totals, point_.step, recipe_);
  point_.epoch_so_far += totals;
  ++point_.step;
  if (point_.step % setup_.steps_per_epoch == 0)
    point_.last_epoch = std::exchange(point_.epoch_so_far, {});
  else if (point_.step == setup_.total_steps)
    point_.last_epoch = point_.epoch_so_far;  // which goes on, if the run does
  point_.spent.samples += totals.samples;
  point_.spent.stepping += stopwatch.seconds();
  reporter_.step(point_, totals, step_.learning_rate(point_.step - 1));
  report_checkpoints();
}

// Does the evaluation and checkpoint that are due after this step. The evaluation counts as done
// once rank 0 has written its event.
void Run::settle() {
  const int64_t step = point_.step;
  const bool epoch_ends = step % setup_.steps_per_epoch == 0;
  const bool evaluates = epoch_ends || step == setup_.total_steps;
  const int64_t every = recipe_.checkpoint.every_steps;
  const bool saves = every > 0 ? step % every == 0 : epoch_ends;
  if (evaluates || saves) check_parameters(*setup_.model, point_.step, recipe_);
  if (evaluates && step <= setup_.steps_per_epoch) warn_of_untrained();
  if (evaluates) {
    evaluate_model();
    if (epoch_ends) note_best();
    reporter_.epoch(point_, evaluated_);
    report_stragglers();
    setup_.group.barrier();
  }
  point_.settled = step;
  if (saves) save_checkpoint();
}

// Continues from the memory of the worker with the most finished steps; else from the newest
// checkpoint.
void Run::take_up(const Safetensors* memory) {
  point_.data_sha256 = setup_.data->digest;
  point_.step = -1;
  if (memory != nullptr) point_ = restore(*memory, "memory", *setup_.model, step_);
  std::vector<int64_t> steps;
  for (const std::string& text : setup_.group.gather_texts(fmt::format("{}", point_.step)))
    steps.push_back(std::stoll(text));
  const auto furthest = std::max_element(steps.begin(), steps.end());
  if (*furthest >= 0) {
    take_state_of(static_cast<int>(furthest - steps.begin()));
    return reporter_.go_on(point_.step);
  }
  point_.step = 0;
  if (folder_ == nullptr)
    reporter_.start(setup_.parameter_count);
  else
    load_checkpoint();
  take_state_of(0);
  reporter_.go_on(point_.step);
}

void Run::load_checkpoint() {
  auto found = checkpoints_->newest();
  const Json before = last_start(*folder_);
  if (!found) {
    if (setup_.lacks_weights)
      throw BadInput("{}: no such file, and {} has no checkpoint to resume from",
                     recipe_.model.weights, folder_->path().string());
    reporter_.start(setup_.parameter_count);
    if (folder_->goes_on())
      reporter_.warn(
          fmt::format("{} has no checkpoint to resume from: the run starts again at step 0",
                      folder_->path().string()));
    return;
  }
  ResumePoint resumed = restore(found->state, found->path, *setup_.model, step_);
  if (resumed.data_sha256 != setup_.data->digest)
    throw BadInput(
        "{}: was trained on other data: {} has changed since then; restore it, or start a new run",
        found->path.string(), recipe_.data.name);
  reporter_.start(setup_.parameter_count);
  for (const std::string& warning : found->warnings) reporter_.warn(warning);
  point_ = std::move(resumed);
  last_checkpoint_step_ = point_.step;
  reporter_.resume(point_.step, found->path.string(), before);
  if (point_.best.figure != setup_.ranking.figure()) point_.best = {};  // changed by --force
  find_best_weights(weights_in(found->state));
  loaded_ = std::move(found->state);
}

// They are missing if they were not asked for before, or were removed.
void Run::find_best_weights(const std::vector<run::TensorView>& weights) {
  const bool exist = std::filesystem::exists(folder_->best_weights());
  if (exist && !kept_checkpoints(recipe_).best)
    reporter_.warn(fmt::format("{} is not updated any more: checkpoint.keep is not \"best\"",
                               folder_->best_weights().string()));
  if (exist || !kept_checkpoints(recipe_).best || point_.best.step == 0) return;
  if (point_.best.step == point_.step)
    save_weights(folder_->best_weights(), weights, about_the_model());
  else
    reporter_.warn(
        fmt::format("{} is missing, and the weights of the best epoch so far (after step {}) with "
                    "it; it will be written after a better one",
                    folder_->best_weights().string(), point_.best.step));
}

// All workers get the donor's state, since other hosts may lack the checkpoint or weights file.
void Run::take_state_of(int donor) {
  if (setup_.group.world_size() == 1) return;
  const auto texts = setup_.group.gather_texts(to_text(point_));
  point_ = resume_point_from(texts[static_cast<size_t>(donor)]);
  if (setup_.grid->shape().stages == 1)
    parallel::FlatState(state_tensors(step_), setup_.group).broadcast(donor);
  else if (point_.step > 0)
    take_parts_of_checkpoint();
}

// Each stage takes what it trains of the checkpoint that rank 0 has loaded.
void Run::take_parts_of_checkpoint() {
  Safetensors checkpoint = std::exchange(loaded_, {});
  broadcast(checkpoint, setup_.world);
  if (setup_.group.rank() > 0) restore(checkpoint, "rank 0's checkpoint", *setup_.model, step_);
}

void Run::remember(Safetensors& into) {
  step_.roll_back();
  point_.spent.total += since_clocked_.restart();
  capture(CollectedState(*setup_.model, step_), point_, {}, into);
}

void Run::evaluate_model() {
  const Splits& splits = setup_.data->splits;
  evaluated_ = evaluated_on(splits.validation ? splits.validation : splits.test);
}

Evaluation Run::evaluated_on(const std::shared_ptr<const Dataset>& split) {
  reporter_.evaluate(point_.step);
  const Stopwatch stopwatch;
  Evaluation evaluation = evaluate(evaluated_model(), *setup_.objective, setup_.evaluation, split,
                                   setup_.group, evaluated_at_once());
  point_.spent.evaluation += stopwatch.seconds();
  return evaluation;
}

EvaluatedModel Run::evaluated_model() const {
  EvaluatedModel evaluated{.model = setup_.model,
                           .pipelines = setup_.grid->pipelines(),
                           .pipeline = setup_.grid->pipeline()};
  for (const auto& part : step_.trained()) evaluated.parts.push_back({part->part(), part->links()});
  return evaluated;
}

// A stage whose device has little memory computes at once what it computes in a step.
int64_t Run::evaluated_at_once() const {
  const bool is_limited = setup_.grid->shape().stages > 1 && !recipe_.device.memory.empty();
  const int64_t in_a_step = std::max<int64_t>(recipe_.train.batch / slices_of(recipe_), 1);
  return is_limited ? std::min(recipe_.evaluate.batch, in_a_step) : recipe_.evaluate.batch;
}

void Run::note_best() {
  const bool is_best =
      setup_.ranking.note(point_.best, point_.step, evaluated_.totals, setup_.evaluation);
  if (is_best && kept_checkpoints(recipe_).best) write_weights(&run::RunFolder::best_weights);
}

// Rank 0 writes the model's weights to a file of the run's folder. Returns their digest there.
std::string Run::write_weights(std::filesystem::path (run::RunFolder::*file)() const) {
  if (folder_ == nullptr && setup_.grid->is_whole()) return {};
  const Stopwatch stopwatch;
  const CollectedState state(*setup_.model, step_);
  if (folder_ != nullptr) save_weights((folder_->*file)(), state.model(), about_the_model());
  point_.spent.checkpoint += stopwatch.seconds();
  return model_sha256(state);
}

bool Run::patience_is_over() const {
  const int64_t patience = recipe_.train.patience;
  return patience > 0 && point_.best.evaluations_since >= patience;
}

// After the first epoch, so that parameters which only some steps use have had their chance.
void Run::warn_of_untrained() {
  const std::vector<std::string> names = step_.without_gradient();
  if (names.empty()) return;
  reporter_.warn(fmt::format(
      "no gradient reached parameter{} {} in the steps so far: the loss does not depend on {}; use "
      "{} in forward(), or freeze {} by requires_grad_(false)",
      names.size() == 1 ? "" : "s", fmt::join(names, ", "), names.size() == 1 ? "it" : "them",
      names.size() == 1 ? "it" : "them", names.size() == 1 ? "it" : "them"));
}

void Run::report_stragglers() {
  if (setup_.grid->shape().stages > 1) return;  // stages wait for each other in turn
  const StragglerReport report = step_.trained().front()->replica().stragglers();
  all_stragglers_ = joined(std::move(all_stragglers_), report);
  reporter_.stragglers(point_.step, report, since_stragglers_.restart());
}

void Run::save_checkpoint() {
  last_checkpoint_step_ = point_.step;
  point_.spent.total += since_clocked_.restart();
  if (!writer_ && setup_.grid->is_whole()) return;
  const Stopwatch stopwatch;
  const CollectedState state(*setup_.model, step_);
  if (!writer_) return;
  capture(state, point_, about_the_model(), writer_->begin());
  writer_->write(point_.step);
  point_.spent.checkpoint += stopwatch.seconds();
}

void Run::report_checkpoints() {
  if (!writer_) return;
  for (const auto& written : writer_->take_written()) reporter_.checkpoint(written);
}

void Run::await_checkpoints() {
  if (writer_) writer_->finish();
  report_checkpoints();
}

void Run::finish_checkpoints() {
  if (last_checkpoint_step_ != point_.step) save_checkpoint();
  await_checkpoints();
}

// Other programs, `evaluate` and `predict` use the model by it.
run::Metadata Run::about_the_model() const {
  return run::to_metadata({.name = recipe_.model.name,
                           .options = recipe_.model.options,
                           .kernels = recipe_.train.kernels,
                           .threads = recipe_.train.threads,
                           .objective = recipe_.objective.name,
                           .objective_options = recipe_.objective.options,
                           .data = recipe_.data.name,
                           .data_options = recipe_.data.options,
                           .hold_out = recipe_.data.hold_out,
                           .data_sha256 = setup_.data->digest,
                           .fields = setup_.data->fields,
                           .normalization = setup_.data->normalization});
}

// No rank leaves before rank 0 has written everything: if rank 0 is lost, the others can continue.
Outcome Run::stop() {
  check_parameters(*setup_.model, point_.step, recipe_);
  finish_checkpoints();
  Outcome outcome{Outcome::Kind::stopped, reporter_.stopped(point_.step)};
  setup_.group.barrier();
  return outcome;
}

Outcome Run::regroup() {
  await_checkpoints();
  return {Outcome::Kind::regrouped};
}

Outcome Run::end() {
  if (evaluated_.totals.samples == 0) evaluate_model();
  std::optional<Evaluation> test;
  if (setup_.has_validation()) test = evaluated_on(setup_.data->splits.test);
  finish_checkpoints();
  const std::string sha256 = write_weights(&run::RunFolder::weights);
  point_.spent.total += since_clocked_.restart();
  Outcome outcome{Outcome::Kind::ended, reporter_.end(point_, {sha256, evaluated_, test},
                                                      all_stragglers_, since_begun_.seconds())};
  setup_.group.barrier();
  return outcome;
}

}  // namespace

Trainer::Trainer(Recipe recipe, World world, std::shared_ptr<const data::TrainingData> data,
                 Facts facts, Start start, const std::string& devices)
    : setup_(std::make_unique<Setup>(std::move(recipe), std::move(world), std::move(data),
                                     std::move(facts), start, devices)) {}

Trainer::~Trainer() = default;

Json Trainer::shown_metrics() const {
  return objective::shown_metrics(setup_->objective->metrics());
}

Outcome Trainer::run(const run::RunFolder* folder, run::EventLog& events, const Limits& limits,
                     const Circumstances& circumstances, std::optional<run::Safetensors>* memory) {
  const MemoryScope scope(MemoryUse::other);
  const bool remembers = memory != nullptr && memory->has_value();
  Run run(*setup_, folder, events, circumstances, remembers ? &**memory : nullptr);
  const auto remember = [&] {
    if (memory != nullptr) run.remember(memory->emplace());
  };
  try {
    Outcome outcome = run.to_its_end(limits);
    if (outcome.kind == Outcome::Kind::regrouped) remember();
    return outcome;
  } catch (const std::exception&) {
    remember();
    throw;
  }
}

}  // namespace lockstep::train
