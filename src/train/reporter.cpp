#include "train/story.h"

#include <torch/version.h>

#include <algorithm>
#include <span>
#include <thread>

#include "base/digest.h"
#include "base/fingerprint.h"
#include "device/processor.h"
#include "train/waiting.h"

namespace lockstep::train {
namespace {

using observe::Json;

// A step event is written at least this often, however rarely the recipe asks for one.
constexpr double kLongestSilence = 1.0;

}  // namespace

Story::Story(const Setup& setup, const RunFolder* folder, observe::EventLog& events,
             const Circumstances& circumstances)
    : setup_(setup),
      recipe_(setup.recipe),
      folder_(folder),
      events_(events),
      circumstances_(circumstances),
      kernels_told_(circumstances.goes_on) {}

void Story::start(int64_t parameters) {
  if (circumstances_.goes_on) return;
  Json event = {{"event", "start"},
                {"model", recipe_.model.name},
                {"data", recipe_.data.source.name},
                {"data_sha256", setup_.splits.digest},
                {"train_samples", setup_.splits.train.size()},
                {"test_samples", setup_.splits.test.size()},
                {"batch", recipe_.train.batch},
                {"steps", setup_.total_steps},
                {"parameters", parameters},
                {"seed", recipe_.train.seed},
                {"threads", recipe_.train.threads},
                {"workers", setup_.group.world_size()},
                {"shards", setup_.shards.count()},
                {"transport", setup_.group.transport().name()},
                {"out", out()},
                {"load_seconds", setup_.data->load_seconds},
                {"torch", TORCH_VERSION},
                {"lockstep", LOCKSTEP_VERSION},
                {"processor", processor_name()}};
  for (const auto& [key, value] : result_values(recipe_)) event["recipe"][key] = value;
  if (!recipe_.model.weights.empty())
    event["weights_sha256"] = digest_file(Digest::Kind::sha256, recipe_.model.weights);
  event.update(circumstances_.workers);
  events_.write(event);
  tell_circumstances();
}

void Story::tell_circumstances() {
  if (recipe_.optimizer.scale_lr_by_workers)
    warn(
        fmt::format("the learning rate is that of one worker times {}: with another number of "
                    "workers this run ends elsewhere",
                    setup_.group.world_size()));
  for (const std::string& warning : circumstances_.warnings) warn(warning);
  for (const std::string& key : without_effect(recipe_)) warn("without effect: " + key);
  if (const auto cores = std::thread::hardware_concurrency(); recipe_.train.threads > cores)
    warn(fmt::format("train.threads is {}, but there are {} cores: slow", recipe_.train.threads,
                     cores));
}

void Story::warn(const std::string& message) {
  events_.write({{"event", "warning"}, {"message", message}});
}

void Story::resume(int64_t step, const std::string& checkpoint, int64_t workers_before) {
  events_.write({{"event", "resume"},
                 {"step", step},
                 {"checkpoint", checkpoint},
                 {"workers", setup_.group.world_size()},
                 {"workers_before", workers_before}});
}

void Story::go_on(int64_t step) {
  if (!circumstances_.goes_on) return;
  Json event = {{"event", "workers"}, {"step", step}, {"workers", setup_.group.world_size()}};
  event.update(circumstances_.workers);
  events_.write(event);
}

// Of parameters and buffers, so that `compare` can tell where two runs part.
void Story::digest(int64_t step) {
  const int64_t every = recipe_.log.digest_every_steps;
  if (folder_ == nullptr || every == 0 || step % every != 0) return;
  const Stopwatch stopwatch;
  Json tensors = Json::object();
  const auto add = [&](const std::string& name, const torch::Tensor& tensor) {
    const std::span bytes(static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes());
    tensors[name] = fmt::format("{:016x}", fingerprint(bytes));
  };
  for (const auto& item : setup_.model->named_parameters()) add(item.key(), item.value());
  for (const auto& item : setup_.model->named_buffers()) add(item.key(), item.value());
  events_.write({{"event", "digest"},
                 {"step", step},
                 {"seconds", stopwatch.seconds()},
                 {"tensors", tensors}});
}

void Story::step(const Position& position, const Totals& totals, double learning_rate) {
  if (!kernels_told_) tell_kernels();
  digest(position.step);
  if (position.step % recipe_.log.every_steps == 0 || since_told_.seconds() > kLongestSilence)
    tell_step(position, totals, learning_rate);
}

// Which served a layer is known once it has been called.
void Story::tell_kernels() {
  kernels_told_ = true;
  Json layers = Json::object();
  for (const auto& [layer, served_by] : setup_.model->kernels()) layers[layer] = served_by;
  if (!layers.empty()) events_.write({{"event", "kernels"}, {"layers", layers}});
}

void Story::tell_step(const Position& position, const Totals& totals, double learning_rate) {
  since_told_.restart();
  const TimeSpent& spent = position.spent;
  const int64_t samples_left = (setup_.total_steps - position.step) *
                               std::min(recipe_.train.batch, setup_.splits.train.size());
  events_.write({{"event", "step"},
                 {"step", position.step},
                 {"steps", setup_.total_steps},
                 {"epoch", (position.step - 1) / setup_.steps_per_epoch + 1},
                 {"epochs", (setup_.total_steps - 1) / setup_.steps_per_epoch + 1},
                 {"loss", totals.mean_loss()},
                 {"accuracy", totals.accuracy()},
                 {"lr", learning_rate},
                 {"samples_per_second", spent.samples_per_second()},
                 {"seconds_left", static_cast<double>(samples_left) / spent.samples_per_second()},
                 {"bytes_sent", bytes_sent()},
                 {"spans", observe::to_json(spent.spans)}});
}

// By what they were for, by this worker, since it began.
Json Story::bytes_sent() const {
  using collective::Cargo;
  return {{"gradients", setup_.group.bytes_sent(Cargo::Kind::gradients)},
          {"buffers", setup_.group.bytes_sent(Cargo::Kind::buffers)},
          {"other", setup_.group.bytes_sent(Cargo::Kind::other)}};
}

Json Story::bytes_sent_by_all() const {
  Json sum = bytes_sent();
  if (setup_.group.world_size() == 1) return sum;
  const std::vector<std::string> texts = setup_.group.gather_texts(sum.dump());
  for (auto& [kind, bytes] : sum.items()) {
    bytes = 0;
    for (const std::string& text : texts)
      bytes = bytes.get<int64_t>() + Json::parse(text).at(kind).get<int64_t>();
  }
  return sum;
}

void Story::evaluate(int64_t step) {
  events_.write({{"event", "evaluate"}, {"step", step}});
}

void Story::epoch(const Position& position, const Totals& test) {
  events_.write(
      {{"event", "epoch"},
       {"epoch", static_cast<double>(position.step) / static_cast<double>(setup_.steps_per_epoch)},
       {"step", position.step},
       {"train_loss", position.last_epoch.mean_loss()},
       {"train_accuracy", position.last_epoch.accuracy()},
       {"test_loss", test.mean_loss()},
       {"test_accuracy", test.accuracy()}});
}

void Story::stragglers(int64_t step, const StragglerReport& report, double seconds) {
  if (report.ranks.size() < 2) return;
  Json ranks = Json::array();
  for (const auto& [steps_late, seconds_caused] : report.ranks)
    ranks.push_back({{"steps_late", steps_late}, {"seconds_caused", seconds_caused}});
  events_.write(
      {{"event", "stragglers"},
       {"step", step},
       {"steps", report.steps},
       {"ranks", ranks},
       {"message", noticeable_waiting(report, seconds).value_or("nobody waited noticeably")}});
}

void Story::checkpoint(const CheckpointWriter::Written& written) {
  events_.write({{"event", "checkpoint"},
                 {"step", written.step},
                 {"path", written.path.string()},
                 {"seconds", written.seconds}});
}

Json Story::stopped(int64_t step) {
  Json event = {
      {"event", "stopped"}, {"step", step}, {"steps", setup_.total_steps}, {"out", out()}};
  events_.write(event);
  return event;
}

Json Story::end(const Position& position, const Totals& test, const StragglerReport& report,
                double seconds) {
  const Json bytes_by_kind = bytes_sent_by_all();
  int64_t bytes = 0;
  for (const auto& [kind, count] : bytes_by_kind.items()) bytes += count.get<int64_t>();
  const TimeSpent& spent = position.spent;
  Json event = {{"event", "end"},
                {"model_sha256", model_sha256(*setup_.model)},
                {"steps", setup_.total_steps},
                {"epochs", static_cast<double>(setup_.total_steps) /
                               static_cast<double>(setup_.steps_per_epoch)},
                {"train_loss", position.last_epoch.mean_loss()},
                {"train_accuracy", position.last_epoch.accuracy()},
                {"test_loss", test.mean_loss()},
                {"test_accuracy", test.accuracy()},
                {"samples_per_second", spent.samples_per_second()},
                {"seconds", spent.total},
                {"evaluation_seconds", spent.evaluation},
                {"checkpoint_seconds", spent.checkpoint},
                {"workers", setup_.group.world_size()},
                {"shards", setup_.shards.count()},
                {"bytes_sent", bytes},
                {"bytes_by_kind", bytes_by_kind},
                {"spans", observe::to_json(spent.spans)},
                {"out", out()}};
  if (const auto waiting = noticeable_waiting(report, seconds)) event["stragglers"] = *waiting;
  events_.write(event);
  return event;
}

}  // namespace lockstep::train
