#include "train/trainer.h"

#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/digest.h"
#include "base/fingerprint.h"
#include "device/processor.h"
#include "lockstep/error.h"
#include "parallel/stragglers.h"
#include "parallel/tensor_buffer.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"
#include "train/setup.h"
#include "train/step.h"
#include "train/waiting.h"

namespace lockstep::train {
namespace {

using observe::Json;
using observe::Span;

// A step event is written at least this often, however rarely the recipe asks for one.
constexpr double kLongestSilence = 1.0;

double highest_rate(const Recipe& recipe, int workers) {
  return recipe.optimizer.scale_lr_by_workers ? recipe.optimizer.lr * workers : recipe.optimizer.lr;
}

/// A run under way.
class Run {
 public:
  Run(Setup& setup, const RunFolder* folder, observe::EventLog& events,
      const Circumstances& circumstances);

  Json to_its_end(Trainer::Limits limits);

 private:
  void resume_from_checkpoint();
  void load_checkpoint();
  int64_t workers_before() const;
  void warn(const std::string& message);
  void take_state_of_rank_0();
  void announce();
  void train_one_step();
  void tell_digests();
  void tell_kernels();
  void check_finite(const Totals& totals) const;
  void tell_step(const Totals& totals);
  void end_epoch();
  void tell_stragglers();
  void save_checkpoint();

  void evaluate_model();
  std::string out() const { return folder_ == nullptr ? "" : folder_->path().string(); }
  Metadata about_the_model() const;
  Json bytes_sent() const;
  Json bytes_sent_by_all();
  Json stopped_event();
  Json end_event();

  // Constant after construction.
  Setup& setup_;
  const Recipe& recipe_;
  const RunFolder* const folder_;  ///< rank 0's; nothing on other ranks
  observe::EventLog& events_;
  const Circumstances& circumstances_;
  std::optional<Checkpoints> checkpoints_;

  // Moves on with every step.
  Step step_;
  Position position_;
  Totals test_;
  Stopwatch since_clocked_;
  Stopwatch since_told_;
  int64_t last_checkpoint_step_ = -1;
  bool kernels_told_ = false;
  parallel::Stragglers stragglers_;
  StragglerReport all_stragglers_;  ///< since this process goes on with the run
  Stopwatch since_begun_;
  Stopwatch since_stragglers_;
};

Run::Run(Setup& setup, const RunFolder* folder, observe::EventLog& events,
         const Circumstances& circumstances)
    : setup_(setup),
      recipe_(setup.recipe),
      folder_(folder),
      events_(events),
      circumstances_(circumstances),
      step_(recipe_, setup.model, setup.splits.train.shape,
            optim::Schedule(recipe_.schedule, highest_rate(recipe_, setup.group.world()),
                            setup.total_steps, setup.steps_per_epoch),
            {setup.shards, setup.group}) {
  if (folder != nullptr) checkpoints_.emplace(folder->checkpoints());
  resume_from_checkpoint();
}

Json Run::to_its_end(Trainer::Limits limits) {
  setup_.model->train();
  setup_.loader.seek(0, position_.step);
  since_clocked_.restart();
  since_begun_.restart();
  since_stragglers_.restart();
  tell_digests();
  while (position_.step < setup_.total_steps) {
    if (step_.stop_agreed() || position_.step >= limits.stop_at_step) return stopped_event();
    if (limits.stop != nullptr && *limits.stop) step_.ask_to_stop();
    train_one_step();
    const int64_t every = recipe_.checkpoint.every_steps;
    const bool epoch_ends = position_.step % setup_.steps_per_epoch == 0;
    if (epoch_ends || position_.step == setup_.total_steps) end_epoch();
    if (every > 0 ? position_.step % every == 0 : epoch_ends) save_checkpoint();
  }
  if (test_.samples == 0) evaluate_model();
  if (last_checkpoint_step_ != position_.step) save_checkpoint();
  if (folder_ != nullptr) save_weights(folder_->weights(), *setup_.model, about_the_model());
  return end_event();
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
  position_.spent.samples += totals.samples;
  position_.spent.stepping += stopwatch.seconds();
  if (!kernels_told_) tell_kernels();
  tell_digests();
  const bool told_often = position_.step % recipe_.log.every_steps == 0;
  if (told_often || since_told_.seconds() > kLongestSilence) tell_step(totals);
}

// Of parameters and buffers, so that `compare` can tell where two runs part.
void Run::tell_digests() {
  const int64_t every = recipe_.log.digest_every_steps;
  if (folder_ == nullptr || every == 0 || position_.step % every != 0) return;
  Json tensors = Json::object();
  const auto add = [&](const std::string& name, const torch::Tensor& tensor) {
    const std::span bytes(static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes());
    tensors[name] = fmt::format("{:016x}", fingerprint(bytes));
  };
  for (const auto& item : setup_.model->named_parameters()) add(item.key(), item.value());
  for (const auto& item : setup_.model->named_buffers()) add(item.key(), item.value());
  events_.write({{"event", "digest"}, {"step", position_.step}, {"tensors", tensors}});
}

// Which served a layer is known once it has been called.
void Run::tell_kernels() {
  kernels_told_ = true;
  Json layers = Json::object();
  for (const auto& [layer, served_by] : setup_.model->kernels()) layers[layer] = served_by;
  if (!layers.empty()) events_.write({{"event", "kernels"}, {"layers", layers}});
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
                {"workers", setup_.group.world()},
                {"shards", setup_.shards.count()},
                {"transport", setup_.group.transport().name()},
                {"out", out()},
                {"load_seconds", setup_.data->load_seconds},
                {"torch", TORCH_VERSION},
                {"lockstep", LOCKSTEP_VERSION},
                {"processor", processor_name()}};
  if (!recipe_.model.weights.empty())
    event["weights_sha256"] = digest_file(Digest::Kind::sha256, recipe_.model.weights);
  event.update(circumstances_.workers);
  events_.write(event);
  if (recipe_.optimizer.scale_lr_by_workers)
    warn(
        fmt::format("the learning rate is that of one worker times {}: with another number of "
                    "workers this run ends elsewhere",
                    setup_.group.world()));
  for (const std::string& warning : circumstances_.warnings) warn(warning);
  for (const std::string& key : without_effect(recipe_)) warn("without effect: " + key);
  if (const auto cores = std::thread::hardware_concurrency(); recipe_.train.threads > cores)
    warn(fmt::format("train.threads is {}, but there are {} cores: slow", recipe_.train.threads,
                     cores));
}

void Run::warn(const std::string& message) {
  events_.write({{"event", "warning"}, {"message", message}});
}

void Run::resume_from_checkpoint() {
  position_.data_sha256 = setup_.splits.digest;
  if (folder_ == nullptr)
    announce();
  else
    load_checkpoint();
  take_state_of_rank_0();
}

void Run::load_checkpoint() {
  const auto loaded = checkpoints_->load_newest(*setup_.model, step_);
  const int64_t before = workers_before();
  if (!loaded) {
    announce();
    if (folder_->goes_on())
      warn(fmt::format("{} has no checkpoint to go on from: this run begins again, at step 0",
                       folder_->path().string()));
    return;
  }
  if (loaded->position.data_sha256 != setup_.splits.digest)
    throw BadInput(
        "{}: was trained on other data: {} has changed since; bring it back, or start a "
        "new run",
        loaded->path.string(), recipe_.data.source.name);
  announce();
  for (const std::string& warning : loaded->warnings) warn(warning);
  position_ = loaded->position;
  last_checkpoint_step_ = position_.step;
  events_.write({{"event", "resume"},
                 {"step", position_.step},
                 {"checkpoint", loaded->path.string()},
                 {"workers", setup_.group.world()},
                 {"workers_before", before}});
}

// On how many workers the run was when it was stopped: nothing else remembers.
int64_t Run::workers_before() const {
  int64_t workers = setup_.group.world();
  for (const Json& event : observe::read_events(folder_->events()))
    if (event.value("event", "") == "start") workers = event.value("workers", workers);
  return workers;
}

// Checkpoints and files of weights need not be there on other hosts.
void Run::take_state_of_rank_0() {
  if (setup_.group.world() == 1) return;
  position_ = position_from_text(setup_.group.gather_texts(to_text(position_)).front());
  const auto share = [&](std::span<float> values) {
    setup_.group.broadcast({reinterpret_cast<std::byte*>(values.data()),
                            static_cast<int64_t>(values.size()), Type::f32},
                           0);
  };
  share(step_.parameters().values());
  for (const auto& state : step_.optimizer().state()) share(state.values);
  for (const auto& buffer : setup_.model->buffers())
    setup_.group.broadcast(parallel::buffer_of(buffer), 0);
}

void Run::tell_step(const Totals& totals) {
  since_told_.restart();
  const TimeSpent& spent = position_.spent;
  const int64_t samples_left = (setup_.total_steps - position_.step) *
                               std::min(recipe_.train.batch, setup_.splits.train.size());
  events_.write({{"event", "step"},
                 {"step", position_.step},
                 {"steps", setup_.total_steps},
                 {"epoch", (position_.step - 1) / setup_.steps_per_epoch + 1},
                 {"epochs", (setup_.total_steps - 1) / setup_.steps_per_epoch + 1},
                 {"loss", totals.mean_loss()},
                 {"accuracy", totals.accuracy()},
                 {"lr", step_.learning_rate(position_.step - 1)},
                 {"samples_per_second", spent.samples_per_second()},
                 {"seconds_left", static_cast<double>(samples_left) / spent.samples_per_second()},
                 {"bytes_sent", bytes_sent()},
                 {"spans", observe::to_json(spent.spans)}});
}

// By what they were for, by this worker, since it began.
Json Run::bytes_sent() const {
  using collective::Cargo;
  return {{"gradients", setup_.group.bytes_sent(Cargo::Kind::gradients)},
          {"buffers", setup_.group.bytes_sent(Cargo::Kind::buffers)},
          {"other", setup_.group.bytes_sent(Cargo::Kind::other)}};
}

Json Run::bytes_sent_by_all() {
  Json sum = bytes_sent();
  if (setup_.group.world() == 1) return sum;
  const std::vector<std::string> texts = setup_.group.gather_texts(sum.dump());
  for (auto& [kind, bytes] : sum.items()) {
    bytes = 0;
    for (const std::string& text : texts)
      bytes = bytes.get<int64_t>() + Json::parse(text).at(kind).get<int64_t>();
  }
  return sum;
}

void Run::evaluate_model() {
  events_.write({{"event", "evaluate"}, {"step", position_.step}});
  const Stopwatch stopwatch;
  test_ = evaluate(*setup_.model, setup_.splits.test, setup_.normalization, setup_.group);
  position_.spent.evaluation += stopwatch.seconds();
}

void Run::end_epoch() {
  position_.last_epoch = std::exchange(position_.epoch_so_far, {});
  evaluate_model();
  events_.write(
      {{"event", "epoch"},
       {"epoch", static_cast<double>(position_.step) / static_cast<double>(setup_.steps_per_epoch)},
       {"step", position_.step},
       {"train_loss", position_.last_epoch.mean_loss()},
       {"train_accuracy", position_.last_epoch.accuracy()},
       {"test_loss", test_.mean_loss()},
       {"test_accuracy", test_.accuracy()}});
  tell_stragglers();
}

void Run::tell_stragglers() {
  const StragglerReport report = stragglers_.report(setup_.group);
  all_stragglers_ = joined(std::move(all_stragglers_), report);
  const double seconds = since_stragglers_.restart();
  if (report.ranks.size() < 2) return;
  Json ranks = Json::array();
  for (const auto& [steps_late, seconds_caused] : report.ranks)
    ranks.push_back({{"steps_late", steps_late}, {"seconds_caused", seconds_caused}});
  events_.write(
      {{"event", "stragglers"},
       {"step", position_.step},
       {"steps", report.steps},
       {"ranks", ranks},
       {"message", noticeable_waiting(report, seconds).value_or("nobody waited noticeably")}});
}

void Run::save_checkpoint() {
  last_checkpoint_step_ = position_.step;
  position_.spent.total += since_clocked_.restart();
  if (!checkpoints_) return;
  const Stopwatch stopwatch;
  const auto path = checkpoints_->save(*setup_.model, step_, position_);
  position_.spent.checkpoint += stopwatch.seconds();
  events_.write({{"event", "checkpoint"},
                 {"step", position_.step},
                 {"path", path.string()},
                 {"seconds", stopwatch.seconds()}});
}

Metadata Run::about_the_model() const {
  return {{"lockstep.model", Json{{"name", recipe_.model.name},
                                  {"input", setup_.splits.train.shape},
                                  {"classes", setup_.splits.train.class_names},
                                  {"mean", setup_.normalization.mean},
                                  {"deviation", setup_.normalization.deviation}}
                                 .dump()}};
}

Json Run::stopped_event() {
  if (last_checkpoint_step_ != position_.step) save_checkpoint();
  Json event = {{"event", "stopped"},
                {"step", position_.step},
                {"steps", setup_.total_steps},
                {"out", out()}};
  events_.write(event);
  return event;
}

Json Run::end_event() {
  position_.spent.total += since_clocked_.restart();
  const Json bytes_by_kind = bytes_sent_by_all();
  int64_t bytes = 0;
  for (const auto& [kind, count] : bytes_by_kind.items()) bytes += count.get<int64_t>();
  const TimeSpent& spent = position_.spent;
  Json event = {{"event", "end"},
                {"model_sha256", model_sha256(*setup_.model)},
                {"steps", setup_.total_steps},
                {"epochs", static_cast<double>(setup_.total_steps) /
                               static_cast<double>(setup_.steps_per_epoch)},
                {"train_loss", position_.last_epoch.mean_loss()},
                {"train_accuracy", position_.last_epoch.accuracy()},
                {"test_loss", test_.mean_loss()},
                {"test_accuracy", test_.accuracy()},
                {"samples_per_second", spent.samples_per_second()},
                {"seconds", spent.total},
                {"evaluation_seconds", spent.evaluation},
                {"checkpoint_seconds", spent.checkpoint},
                {"workers", setup_.group.world()},
                {"shards", setup_.shards.count()},
                {"bytes_sent", bytes},
                {"bytes_by_kind", bytes_by_kind},
                {"spans", observe::to_json(spent.spans)},
                {"out", out()}};
  if (const auto waiting = noticeable_waiting(all_stragglers_, since_begun_.seconds()))
    event["stragglers"] = *waiting;
  events_.write(event);
  return event;
}

}  // namespace

Trainer::Trainer(Recipe recipe, World world, std::shared_ptr<const TrainingData> data)
    : setup_(std::make_unique<Setup>(std::move(recipe), std::move(world), std::move(data))) {}

Trainer::~Trainer() = default;

Json Trainer::run(const RunFolder* folder, observe::EventLog& events, Limits limits,
                  const Circumstances& circumstances) {
  return Run(*setup_, folder, events, circumstances).to_its_end(limits);
}

}  // namespace lockstep::train
