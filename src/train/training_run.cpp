#include "train/training_run.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "lockstep/error.h"
#include "train/divergence.h"
#include "train/placement.h"

namespace lockstep::train {

using objective::Totals;
using observe::Span;
using run::Outcome;
using run::Safetensors;

namespace {

double highest_rate(const Recipe& recipe, int workers) {
  return recipe.optimizer.scale_lr_by_workers ? recipe.optimizer.lr * workers : recipe.optimizer.lr;
}

StepParts parts_of(const Setup& setup) {
  return {.model = setup.parts,
          .mirrors = setup.mirrors,
          .parameters = setup.parameters,
          .objective = setup.objective,
          .batches = setup.batches,
          .schedule = optim::Schedule(setup.recipe.schedule,
                                      highest_rate(setup.recipe, setup.grid->pipelines()),
                                      setup.total_steps, setup.steps_per_epoch),
          .shards = setup.shards,
          .stage_advice = setup.stage_advice,
          .grid = setup.grid,
          .world = setup.world};
}

}  // namespace

TrainingRun::TrainingRun(Setup& setup, const run::RunFolder* folder, run::EventLog& events,
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

Outcome TrainingRun::to_its_end(const Trainer::Limits& limits) {
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

void TrainingRun::abort(const std::string& why) const {
  for (World& world : step_.worlds()) world.abort(why);
}

void TrainingRun::train_one_step() {
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
void TrainingRun::settle() {
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

void TrainingRun::evaluate_model() {
  const Splits& splits = setup_.data->splits;
  evaluated_ = evaluated_on(splits.validation ? splits.validation : splits.test);
}

Evaluation TrainingRun::evaluated_on(const std::shared_ptr<const Dataset>& split) {
  reporter_.evaluate(point_.step);
  const Stopwatch stopwatch;
  Evaluation evaluation = evaluate(evaluated_model(), *setup_.objective, setup_.evaluation, split,
                                   setup_.group, evaluated_at_once());
  point_.spent.evaluation += stopwatch.seconds();
  return evaluation;
}

EvaluatedModel TrainingRun::evaluated_model() const {
  EvaluatedModel evaluated{.model = setup_.model,
                           .pipelines = setup_.grid->pipelines(),
                           .pipeline = setup_.grid->pipeline()};
  for (const auto& part : step_.trained()) evaluated.parts.push_back({part->part(), part->links()});
  return evaluated;
}

// A stage whose device has little memory computes at once what it computes in a step.
int64_t TrainingRun::evaluated_at_once() const {
  const bool is_limited = setup_.grid->shape().stages > 1 && memory_limit(recipe_) > 0;
  const int64_t in_a_step = std::max<int64_t>(recipe_.train.batch / pieces_of(recipe_), 1);
  return is_limited ? std::min(recipe_.evaluate.batch, in_a_step) : recipe_.evaluate.batch;
}

void TrainingRun::note_best() {
  const bool is_best =
      setup_.ranking.note(point_.best, point_.step, evaluated_.totals, setup_.evaluation);
  if (is_best && kept_checkpoints(recipe_).best) write_weights(&run::RunFolder::best_weights);
}

bool TrainingRun::patience_is_over() const {
  const int64_t patience = recipe_.train.patience;
  return patience > 0 && point_.best.evaluations_since >= patience;
}

// After the first epoch, so that parameters which only some steps use have had their chance.
void TrainingRun::warn_of_untrained() {
  const std::vector<std::string> names = step_.without_gradient();
  if (names.empty()) return;
  reporter_.warn(fmt::format(
      "no gradient reached parameter{} {} in the steps so far: the loss does not depend on {}; use "
      "{} in forward(), or freeze {} by requires_grad_(false)",
      names.size() == 1 ? "" : "s", fmt::join(names, ", "), names.size() == 1 ? "it" : "them",
      names.size() == 1 ? "it" : "them", names.size() == 1 ? "it" : "them"));
}

void TrainingRun::report_stragglers() {
  if (setup_.grid->shape().stages > 1) return;  // stages wait for each other in turn
  const StragglerReport report = step_.trained().front()->replica().stragglers();
  all_stragglers_ = joined(std::move(all_stragglers_), report);
  reporter_.stragglers(point_.step, report, since_stragglers_.restart());
}

// No rank leaves before rank 0 has written everything: if rank 0 is lost, the others can continue.
Outcome TrainingRun::stop() {
  check_parameters(*setup_.model, point_.step, recipe_);
  finish_checkpoints();
  Outcome outcome{Outcome::Kind::stopped, reporter_.stopped(point_.step)};
  setup_.group.barrier();
  return outcome;
}

Outcome TrainingRun::regroup() {
  await_checkpoints();
  return {Outcome::Kind::regrouped};
}

Outcome TrainingRun::end() {
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

}  // namespace lockstep::train
