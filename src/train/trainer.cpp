#include "train/trainer.h"

#include <torch/version.h>

#include <cmath>
#include <utility>

#include "base/clock.h"
#include "base/digest.h"
#include "lockstep/error.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"
#include "train/setup.h"
#include "train/step.h"

namespace lockstep::train {
namespace {

using observe::Json;
using observe::Span;

// A step event is written at least this often, however rarely the recipe asks for one.
constexpr double kLongestSilence = 1.0;

/// A run under way.
class Run {
 public:
  Run(Setup& setup, const RunFolder& folder, observe::EventLog& events);

  Json to_its_end(Trainer::Limits limits);

 private:
  void resume_from_checkpoint();
  void announce();
  void train_one_step();
  void check_finite(const Totals& totals) const;
  void tell_step(const Totals& totals);
  void end_epoch();
  void save_checkpoint();
  Json end_event() const;

  int64_t epoch() const { return position_.step / setup_.steps_per_epoch; }
  double samples_per_second() const;

  // Constant after construction.
  Setup& setup_;
  const Recipe& recipe_;
  const RunFolder& folder_;
  observe::EventLog& events_;
  Checkpoints checkpoints_;

  // Moves on with every step.
  Step step_;
  Position position_;
  Totals test_;
  observe::SpanTimes spans_;
  Stopwatch stopwatch_;
  Stopwatch since_told_;
  double stepping_seconds_ = 0;
  int64_t samples_here_ = 0;
  int64_t last_checkpoint_step_ = -1;
  double seconds_before_ = 0;
};

Run::Run(Setup& setup, const RunFolder& folder, observe::EventLog& events)
    : setup_(setup),
      recipe_(setup.recipe),
      folder_(folder),
      events_(events),
      checkpoints_(folder.checkpoints()),
      step_(recipe_, setup.model, setup.splits.train.shape,
            optim::Schedule(recipe_.schedule, recipe_.optimizer.lr, setup.total_steps,
                            setup.steps_per_epoch)) {
  announce();
  resume_from_checkpoint();
}

Json Run::to_its_end(Trainer::Limits limits) {
  setup_.model->train();
  setup_.loader.seek(epoch(), position_.step % setup_.steps_per_epoch);
  stopwatch_.restart();
  while (position_.step < setup_.total_steps) {
    const bool asked_to_stop = limits.stop != nullptr && *limits.stop;
    if (asked_to_stop || position_.step >= limits.stop_at_step) {
      if (last_checkpoint_step_ != position_.step) save_checkpoint();
      Json stopped = {
          {"event", "stopped"}, {"step", position_.step}, {"steps", setup_.total_steps}};
      events_.write(stopped);
      return stopped;
    }
    train_one_step();
    const int64_t every = recipe_.checkpoint.every_steps;
    const bool epoch_ends = position_.step % setup_.steps_per_epoch == 0;
    if (epoch_ends || position_.step == setup_.total_steps) end_epoch();
    if (every > 0 ? position_.step % every == 0 : epoch_ends) save_checkpoint();
  }
  if (test_.samples == 0) test_ = evaluate(*setup_.model, setup_.splits.test, setup_.normalization);
  if (last_checkpoint_step_ != position_.step) save_checkpoint();
  save_weights(folder_.weights(), *setup_.model);
  Json end = end_event();
  events_.write(end);
  return end;
}

void Run::train_one_step() {
  const Stopwatch stopwatch;
  const data::Batch* batch = nullptr;
  {
    observe::ScopedSpan span(spans_, Span::data);
    batch = &setup_.loader.next();
  }
  const Totals totals = step_.run(*batch, position_.step, spans_);
  check_finite(totals);
  position_.epoch_so_far += totals;
  ++position_.step;
  samples_here_ += totals.samples;
  stepping_seconds_ += stopwatch.seconds();
  const bool told_often = position_.step % recipe_.log.every_steps == 0;
  if (told_often || since_told_.seconds() > kLongestSilence) tell_step(totals);
}

void Run::check_finite(const Totals& totals) const {
  if (std::isfinite(totals.loss)) return;
  throw Error(fmt::format(
      "the loss is {} at step {}: training diverged; lower optimizer.lr (now {}) or raise "
      "schedule.warmup_epochs (now {})",
      totals.loss, position_.step, recipe_.optimizer.lr, recipe_.schedule.warmup_epochs));
}

void Run::announce() {
  Json event = {{"event", "start"},
                {"model", recipe_.model.name},
                {"data", recipe_.data.source.name},
                {"data_sha256", setup_.splits.digest},
                {"train_samples", setup_.splits.train.size()},
                {"test_samples", setup_.splits.test.size()},
                {"batch", recipe_.train.batch},
                {"steps", setup_.total_steps},
                {"parameters", step_.parameters().count()},
                {"seed", recipe_.train.seed},
                {"threads", recipe_.train.threads},
                {"torch", TORCH_VERSION}};
  if (!recipe_.model.weights.empty())
    event["weights_sha256"] = digest_file(Digest::Kind::sha256, recipe_.model.weights);
  events_.write(event);
}

void Run::resume_from_checkpoint() {
  const auto loaded = checkpoints_.load_newest(*setup_.model, step_);
  if (!loaded) return;
  for (const std::string& warning : loaded->warnings)
    events_.write({{"event", "warning"}, {"message", warning}});
  position_ = loaded->position;
  seconds_before_ = position_.seconds;
  last_checkpoint_step_ = position_.step;
  events_.write(
      {{"event", "resume"}, {"step", position_.step}, {"checkpoint", loaded->path.string()}});
}

void Run::tell_step(const Totals& totals) {
  since_told_.restart();
  const double seconds_a_step = stepping_seconds_ / static_cast<double>(samples_here_) *
                                static_cast<double>(recipe_.train.batch);
  events_.write(
      {{"event", "step"},
       {"step", position_.step},
       {"steps", setup_.total_steps},
       {"epoch", (position_.step - 1) / setup_.steps_per_epoch + 1},
       {"epochs", (setup_.total_steps + setup_.steps_per_epoch - 1) / setup_.steps_per_epoch},
       {"loss", totals.mean_loss()},
       {"accuracy", totals.accuracy()},
       {"lr", step_.learning_rate(position_.step - 1)},
       {"samples_per_second", samples_per_second()},
       {"seconds_left", seconds_a_step * static_cast<double>(setup_.total_steps - position_.step)},
       {"spans", observe::to_json(spans_)}});
}

void Run::end_epoch() {
  position_.last_epoch = std::exchange(position_.epoch_so_far, {});
  const Stopwatch stopwatch;
  test_ = evaluate(*setup_.model, setup_.splits.test, setup_.normalization);
  events_.write({{"event", "epoch"},
                 {"epoch", (position_.step - 1) / setup_.steps_per_epoch + 1},
                 {"step", position_.step},
                 {"train_loss", position_.last_epoch.mean_loss()},
                 {"train_accuracy", position_.last_epoch.accuracy()},
                 {"test_loss", test_.mean_loss()},
                 {"test_accuracy", test_.accuracy()},
                 {"evaluation_seconds", stopwatch.seconds()}});
}

void Run::save_checkpoint() {
  const Stopwatch stopwatch;
  position_.seconds = seconds_before_ + stopwatch_.seconds();
  const auto path = checkpoints_.save(*setup_.model, step_, position_);
  last_checkpoint_step_ = position_.step;
  events_.write({{"event", "checkpoint"},
                 {"step", position_.step},
                 {"path", path.string()},
                 {"seconds", stopwatch.seconds()}});
}

Json Run::end_event() const {
  return {{"event", "end"},
          {"model_sha256", model_sha256(*setup_.model)},
          {"steps", setup_.total_steps},
          {"epochs",
           static_cast<double>(setup_.total_steps) / static_cast<double>(setup_.steps_per_epoch)},
          {"train_loss", position_.last_epoch.mean_loss()},
          {"train_accuracy", position_.last_epoch.accuracy()},
          {"test_loss", test_.mean_loss()},
          {"test_accuracy", test_.accuracy()},
          {"samples_per_second", samples_per_second()},
          {"seconds", seconds_before_ + stopwatch_.seconds()},
          {"workers", 1},
          {"shards", 1},
          {"bytes_sent", 0},
          {"spans", observe::to_json(spans_)}};
}

double Run::samples_per_second() const {
  return stepping_seconds_ == 0 ? 0 : static_cast<double>(samples_here_) / stepping_seconds_;
}

}  // namespace

Trainer::Trainer(Recipe recipe) : setup_(std::make_unique<Setup>(std::move(recipe))) {}

Trainer::~Trainer() = default;

Json Trainer::run(const RunFolder& folder, observe::EventLog& events, Limits limits) {
  return Run(*setup_, folder, events).to_its_end(limits);
}

}  // namespace lockstep::train
