#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "lockstep/error.h"
#include "parallel/stragglers.h"
#include "parallel/tensor_buffer.h"
#include "train/checkpoint_writer.h"
#include "train/evaluate.h"
#include "train/setup.h"
#include "train/step.h"
#include "train/story.h"
#include "train/waiting.h"

namespace lockstep::train {
namespace {

using observe::Json;
using observe::Span;

double highest_rate(const Recipe& recipe, int workers) {
  return recipe.optimizer.scale_lr_by_workers ? recipe.optimizer.lr * workers : recipe.optimizer.lr;
}

/// A run under way, among workers that stay the same.
class Run {
 public:
  /// `memory` is what this worker has of the run from working with others before, if anything.
  Run(Setup& setup, const RunFolder* folder, observe::EventLog& events,
      const Circumstances& circumstances, const Safetensors* memory);

  Json to_its_end(const Trainer::Limits& limits);

  /// After the last whole step: what was begun since is taken back.
  void remember(Safetensors& into);

 private:
  void take_up(const Safetensors* memory);
  void load_checkpoint();
  int64_t workers_before() const;
  void take_state_of(int donor);
  void train_one_step();
  void check_finite(const Totals& totals) const;
  void settle();
  void evaluate_model();
  void tell_stragglers();
  void save_checkpoint();
  void tell_checkpoints();
  void await_checkpoints();
  void finish_checkpoints();
  Metadata about_the_model() const;
  Json stop();
  Json regroup();
  Json end();

  // Constant after construction.
  Setup& setup_;
  const Recipe& recipe_;
  const RunFolder* const folder_;  ///< rank 0's; nothing on other ranks
  std::optional<Checkpoints> checkpoints_;
  std::optional<CheckpointWriter> writer_;

  // Moves on with every step.
  Story story_;
  Step step_;
  Position position_;
  Totals test_;
  Stopwatch since_clocked_;
  int64_t last_checkpoint_step_ = -1;
  parallel::Stragglers stragglers_;
  StragglerReport all_stragglers_;  ///< since this process goes on with the run
  Stopwatch since_begun_;
  Stopwatch since_stragglers_;
};

Run::Run(Setup& setup, const RunFolder* folder, observe::EventLog& events,
         const Circumstances& circumstances, const Safetensors* memory)
    : setup_(setup),
      recipe_(setup.recipe),
      folder_(folder),
      story_(setup, folder, events, circumstances),
      step_(recipe_, setup.model, setup.splits.train.shape,
            optim::Schedule(recipe_.schedule, highest_rate(recipe_, setup.group.world_size()),
                            setup.total_steps, setup.steps_per_epoch),
            {setup.shards, setup.group}) {
  if (folder != nullptr) {
    checkpoints_.emplace(folder->checkpoints());
    writer_.emplace(*checkpoints_);
  }
  take_up(memory);
}

Json Run::to_its_end(const Trainer::Limits& limits) {
  setup_.model->train();
  setup_.loader.seek(0, position_.step);
  since_clocked_.restart();
  since_begun_.restart();
  since_stragglers_.restart();
  story_.digest(position_.step);
  while (true) {
    if (position_.settled < position_.step) settle();
    if (position_.step == setup_.total_steps) return end();
    if (step_.agreed(Wish::stop) || position_.step >= limits.stop_at_step) return stop();
    if (step_.agreed(Wish::regroup)) return regroup();
    if (limits.stop != nullptr && *limits.stop) step_.wish(Wish::stop);
    if (limits.regroup != nullptr && *limits.regroup) step_.wish(Wish::regroup);
    train_one_step();
    if (limits.after_step) limits.after_step(position_.step);
  }
}

void Run::train_one_step() {
  const Stopwatch stopwatch;
  const data::Batch* batch = nullptr;
  {
    observe::ScopedSpan span(position_.spent.spans, Span::data);
    batch = &setup_.loader.next();
  }
  const Totals totals = step_.run(*batch, position_.step, position_.spent.spans);
  check_finite(totals);
  stragglers_.add(step_.seconds_waited());
  position_.epoch_so_far += totals;
  ++position_.step;
  if (position_.step % setup_.steps_per_epoch == 0 || position_.step == setup_.total_steps)
    position_.last_epoch = std::exchange(position_.epoch_so_far, {});
  position_.spent.samples += totals.samples;
  position_.spent.stepping += stopwatch.seconds();
  story_.step(position_, totals, step_.learning_rate(position_.step - 1));
  tell_checkpoints();
}

void Run::check_finite(const Totals& totals) const {
  if (std::isfinite(totals.loss)) return;
  throw Error(fmt::format(
      "the loss is {} at step {}: training diverged; lower optimizer.lr (now {}) or raise "
      "schedule.warmup_epochs (now {})",
      totals.loss, position_.step, recipe_.optimizer.lr, recipe_.schedule.warmup_epochs));
}

// What is due after some steps. It counts as done once rank 0 has told it.
void Run::settle() {
  const int64_t step = position_.step;
  const bool epoch_ends = step % setup_.steps_per_epoch == 0;
  const bool evaluates = epoch_ends || step == setup_.total_steps;
  const int64_t every = recipe_.checkpoint.every_steps;
  if (evaluates) {
    evaluate_model();
    story_.epoch(position_, test_);
    tell_stragglers();
    setup_.group.barrier();
  }
  position_.settled = step;
  if (every > 0 ? step % every == 0 : epoch_ends) save_checkpoint();
}

// Somebody's memory, from the furthest step anyone has come to; else the newest checkpoint.
void Run::take_up(const Safetensors* memory) {
  position_.data_sha256 = setup_.splits.digest;
  position_.step = -1;
  if (memory != nullptr) position_ = restore(*memory, "memory", *setup_.model, step_);
  std::vector<int64_t> steps;
  for (const std::string& text : setup_.group.gather_texts(fmt::format("{}", position_.step)))
    steps.push_back(std::stoll(text));
  const auto furthest = std::max_element(steps.begin(), steps.end());
  if (*furthest >= 0) {
    take_state_of(static_cast<int>(furthest - steps.begin()));
    return story_.go_on(position_.step);
  }
  position_.step = 0;
  if (folder_ == nullptr)
    story_.start(step_.parameters().count());
  else
    load_checkpoint();
  take_state_of(0);
  story_.go_on(position_.step);
}

void Run::load_checkpoint() {
  const auto loaded = checkpoints_->load_newest(*setup_.model, step_);
  const int64_t before = workers_before();
  if (!loaded) {
    story_.start(step_.parameters().count());
    if (folder_->goes_on())
      story_.warn(
          fmt::format("{} has no checkpoint to go on from: this run begins again, at step 0",
                      folder_->path().string()));
    return;
  }
  if (loaded->position.data_sha256 != setup_.splits.digest)
    throw BadInput(
        "{}: was trained on other data: {} has changed since; bring it back, or start a "
        "new run",
        loaded->path.string(), recipe_.data.source.name);
  story_.start(step_.parameters().count());
  for (const std::string& warning : loaded->warnings) story_.warn(warning);
  position_ = loaded->position;
  last_checkpoint_step_ = position_.step;
  story_.resume(position_.step, loaded->path.string(), before);
}

// On how many workers the run was when it was stopped: nothing else remembers.
int64_t Run::workers_before() const {
  int64_t workers = setup_.group.world_size();
  for (const Json& event : observe::read_events(folder_->events()))
    if (event.value("event", "") == "start") workers = event.value("workers", workers);
  return workers;
}

// Checkpoints and files of weights need not be there on other hosts.
void Run::take_state_of(int donor) {
  if (setup_.group.world_size() == 1) return;
  const auto texts = setup_.group.gather_texts(to_text(position_));
  position_ = position_from_text(texts[static_cast<size_t>(donor)]);
  const auto share = [&](std::span<float> values) {
    setup_.group.broadcast({reinterpret_cast<std::byte*>(values.data()),
                            static_cast<int64_t>(values.size()), Type::f32},
                           donor);
  };
  share(step_.parameters().values());
  for (const auto& state : step_.optimizer().state()) share(state.values);
  for (const auto& buffer : setup_.model->buffers())
    setup_.group.broadcast(parallel::buffer_of(buffer), donor);
}

void Run::remember(Safetensors& into) {
  step_.take_back();
  position_.spent.total += since_clocked_.restart();
  capture(*setup_.model, step_, position_, into);
}

void Run::evaluate_model() {
  story_.evaluate(position_.step);
  const Stopwatch stopwatch;
  test_ = evaluate(*setup_.model, setup_.splits.test, setup_.normalization, setup_.group);
  position_.spent.evaluation += stopwatch.seconds();
}

void Run::tell_stragglers() {
  const StragglerReport report = stragglers_.report(setup_.group);
  all_stragglers_ = joined(std::move(all_stragglers_), report);
  story_.stragglers(position_.step, report, since_stragglers_.restart());
}

void Run::save_checkpoint() {
  last_checkpoint_step_ = position_.step;
  position_.spent.total += since_clocked_.restart();
  if (!writer_) return;
  const Stopwatch stopwatch;
  capture(*setup_.model, step_, position_, writer_->begin());
  writer_->write(position_.step);
  position_.spent.checkpoint += stopwatch.seconds();
}

void Run::tell_checkpoints() {
  if (!writer_) return;
  for (const auto& written : writer_->take_written()) story_.checkpoint(written);
}

void Run::await_checkpoints() {
  if (writer_) writer_->finish();
  tell_checkpoints();
}

void Run::finish_checkpoints() {
  if (last_checkpoint_step_ != position_.step) save_checkpoint();
  await_checkpoints();
}

Metadata Run::about_the_model() const {
  return {{"lockstep.model", Json{{"name", recipe_.model.name},
                                  {"input", setup_.splits.train.shape},
                                  {"classes", setup_.splits.train.class_names},
                                  {"mean", setup_.normalization.mean},
                                  {"deviation", setup_.normalization.deviation}}
                                 .dump()}};
}

// Nobody leaves before rank 0 has told all: should it be lost, the others can go on.
Json Run::stop() {
  finish_checkpoints();
  Json last = story_.stopped(position_.step);
  setup_.group.barrier();
  return last;
}

Json Run::regroup() {
  await_checkpoints();
  return {{"event", "regroup"}};
}

Json Run::end() {
  if (test_.samples == 0) evaluate_model();
  finish_checkpoints();
  if (folder_ != nullptr) save_weights(folder_->weights(), *setup_.model, about_the_model());
  position_.spent.total += since_clocked_.restart();
  Json last = story_.end(position_, test_, all_stragglers_, since_begun_.seconds());
  setup_.group.barrier();
  return last;
}

}  // namespace

Trainer::Trainer(Recipe recipe, World world, std::shared_ptr<const TrainingData> data)
    : setup_(std::make_unique<Setup>(std::move(recipe), std::move(world), std::move(data))) {}

Trainer::~Trainer() = default;

Json Trainer::run(const RunFolder* folder, observe::EventLog& events, const Limits& limits,
                  const Circumstances& circumstances, std::optional<Safetensors>* memory) {
  const bool remembers = memory != nullptr && memory->has_value();
  Run run(*setup_, folder, events, circumstances, remembers ? &**memory : nullptr);
  const auto remember = [&] {
    if (memory != nullptr) run.remember(memory->emplace());
  };
  try {
    Json last = run.to_its_end(limits);
    if (last["event"] == "regroup") remember();
    return last;
  } catch (const std::exception&) {
    remember();
    throw;
  }
}

}  // namespace lockstep::train
