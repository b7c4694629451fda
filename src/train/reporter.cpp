#include "train/reporter.h"

#include <torch/version.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <thread>

#include "base/digest.h"
#include "base/fingerprint.h"
#include "device/processor.h"
#include "kernels/cpu.h"
#include "parallel/tensor_buffer.h"
#include "train/run_figures.h"

namespace lockstep::train {
namespace {

using run::Json;

// A step event is written at least this often, whatever log.every_steps is.
constexpr double kSecondsBetweenSteps = 1.0;

// The most table elements in an event; larger tables are left out.
constexpr size_t kLargestTables = 65'536;

Json names_of(const std::vector<c10::Device>& devices) {
  Json names = Json::array();
  for (const c10::Device device : devices) names.push_back(parallel::device_name(device));
  return names;
}

Json to_json(const parallel::MirrorTraffic& traffic) {
  return {{"replicated", traffic.replicated},
          {"scattered", traffic.scattered},
          {"gathered", traffic.gathered},
          {"reduced", traffic.reduced}};
}

}  // namespace

Reporter::Reporter(const Setup& setup, const objective::Scorecard& training,
                   const run::RunFolder* folder, run::EventLog& events,
                   const Circumstances& circumstances)
    : setup_(setup),
      recipe_(setup.recipe),
      training_(training),
      folder_(folder),
      events_(events),
      circumstances_(circumstances),
      kernels_written_(circumstances.goes_on) {}

void Reporter::start(int64_t parameters) {
  if (circumstances_.goes_on) return;
  Json event = {
      {"event", "start"},
      {"model", recipe_.model.name},
      {"data", recipe_.data.name},
      {"objective", recipe_.objective.name},
      {"metrics", objective::shown_metrics(setup_.objective->metrics())},
      {"data_sha256", setup_.data->digest},
      {"train_samples", setup_.train().size()},
      {"validation_samples", setup_.has_validation() ? setup_.data->splits.validation->size() : 0},
      {"test_samples", setup_.test().size()},
      {"batch", recipe_.train.batch},
      {"steps", setup_.total_steps},
      {"parameters", parameters},
      {"seed", recipe_.train.seed},
      {"threads", recipe_.train.threads},
      {"workers", setup_.group.world_size()},
      {"shards", shards_of(recipe_)},
      {"parallel", recipe_.parallel.mode},
      {"devices", names_of(setup_.devices)},
      {"stages", recipe_.parallel.stages},
      {"transport", setup_.group.transport().name()},
      {"out", out()},
      {"load_seconds", setup_.data->load_seconds},
      {"torch", TORCH_VERSION},
      {"lockstep", LOCKSTEP_VERSION},
      {"processor", processor_name()},
      {"instructions", to_string(kernels::instruction_set())}};
  for (const auto& [key, value] : result_values(recipe_)) event["recipe"][key] = value;
  if (!recipe_.model.weights.empty() && !setup_.lacks_weights)
    event["weights_sha256"] = digest_file(Digest::Kind::sha256, recipe_.model.weights);
  event.update(circumstances_.workers);
  events_.write(event);
  warn_of_circumstances();
}

void Reporter::warn_of_circumstances() {
  if (recipe_.optimizer.scale_lr_by_workers)
    warn(
        fmt::format("optimizer.scale_lr_by_workers multiplies the learning rate by {}: the result "
                    "depends on the number of workers",
                    setup_.grid->pipelines()));
  if (const bool chooses = recipe_.train.patience > 0 || kept_checkpoints(recipe_).best;
      chooses && !setup_.has_validation())
    warn(
        "there is no validation split, so that the test split chooses the best epoch: its figures "
        "will be too good; set data.validation_fraction");
  for (const std::string& warning : setup_.data->splits.warnings) warn(warning);
  for (const std::string& why : setup_.left_weights)
    warn(fmt::format("{}: {}: left out", recipe_.model.weights, why));
  for (const std::string& warning : circumstances_.warnings) warn(warning);
  for (const std::string& key : without_effect(recipe_)) warn(key);
  if (const auto cores = std::thread::hardware_concurrency(); recipe_.train.threads > cores)
    warn(fmt::format("train.threads is {}, but there are only {} cores: training will be slow",
                     recipe_.train.threads, cores));
}

void Reporter::warn(const std::string& message) {
  events_.write({{"event", "warning"}, {"message", message}});
}

void Reporter::resume(int64_t step, const std::string& checkpoint, const Json& before) {
  const int workers = setup_.group.world_size();
  events_.write({{"event", "resume"},
                 {"step", step},
                 {"checkpoint", checkpoint},
                 {"workers", workers},
                 {"workers_before", before.value("workers", workers)}});
  if (before.value("plugins_sha256", "") != circumstances_.workers.value("plugins_sha256", ""))
    warn(
        "the code of the plugins has changed since this run was started: the recipe and the "
        "plugins alone do not reproduce its model");
  warn_of_other_processor(before);
}

// Kernels of another instruction set, and LibTorch's for another processor, add in another order.
void Reporter::warn_of_other_processor(const Json& before) {
  const auto describe = [](const std::string& name, const std::string& instructions) {
    return fmt::format("{} (LOCKSTEP_INSTRUCTIONS: {})", name, instructions);
  };
  const std::string instructions = to_string(kernels::instruction_set());
  const std::string now = describe(processor_name(), instructions);
  const std::string then = describe(before.value("processor", processor_name()),
                                    before.value("instructions", instructions));
  if (now != then)
    warn(
        fmt::format("this run was on {} before and is on {} now: its model will have other bits "
                    "than one that was trained on one kind of processor",
                    then, now));
}

void Reporter::go_on(int64_t step) {
  if (!circumstances_.goes_on) return;
  Json event = {{"event", "workers"}, {"step", step}, {"workers", setup_.group.world_size()}};
  event.update(circumstances_.workers);
  events_.write(event);
}

// Of parameters and buffers, so that `compare` can find where two runs diverge.
void Reporter::digest(int64_t step) {
  const int64_t every = recipe_.log.digest_every_steps;
  if (every == 0 || step % every != 0 || !has_share_in_events()) return;
  const Stopwatch stopwatch;
  std::vector<std::string> found;
  const auto add = [&](const std::string& name, const torch::Tensor& anywhere) {
    const torch::Tensor tensor = anywhere.detach().cpu();
    const std::span bytes(static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes());
    found.push_back(Json{name, fmt::format("{:016x}", fingerprint(bytes))}.dump());
  };
  for (const parallel::ModelPart& part : setup_.parts) {
    for (const auto& item : part.module().named_parameters()) add(item.key(), item.value());
    for (const auto& item : part.module().named_buffers()) add(item.key(), item.value());
  }
  std::map<std::string, std::string> by_name;
  for (const std::string& each : setup_.grid->gathered(std::move(found)))
    by_name.emplace(Json::parse(each)[0], Json::parse(each)[1]);
  Json tensors = Json::object();
  for (const auto& item : setup_.model->named_parameters())
    tensors[item.key()] = by_name[item.key()];
  for (const auto& item : setup_.model->named_buffers()) tensors[item.key()] = by_name[item.key()];
  events_.write({{"event", "digest"},
                 {"step", step},
                 {"seconds", stopwatch.seconds()},
                 {"tensors", tensors}});
}

// Rank 0 writes events, of what it knows or gets from the other workers of its pipeline.
bool Reporter::has_share_in_events() const {
  return folder_ != nullptr || (!setup_.grid->is_whole() && setup_.grid->pipeline() == 0);
}

void Reporter::step(const ResumePoint& point, const objective::Totals& totals,
                    double learning_rate) {
  if (!kernels_written_) write_kernels();
  digest(point.step);
  if (point.step % recipe_.log.every_steps == 0 || since_step_.seconds() > kSecondsBetweenSteps)
    write_step(point, totals, learning_rate);
}

// Which kernel a layer uses is known after its first call.
void Reporter::write_kernels() {
  kernels_written_ = true;
  if (!has_share_in_events()) return;
  std::set<std::string> computed;  // here, not by another stage
  for (const parallel::ModelPart& part : setup_.parts)
    for (const auto& item : part.module().named_modules()) computed.insert(item.key());
  std::vector<std::string> served;
  for (const auto& [layer, served_by] : setup_.model->kernels())
    if (computed.contains(layer)) served.push_back(Json{layer, served_by}.dump());
  Json layers = Json::object();
  for (const std::string& each : setup_.grid->gathered(std::move(served))) {
    const Json pair = Json::parse(each);
    layers[pair[0].get<std::string>()] = pair[1];
  }
  if (!layers.empty()) events_.write({{"event", "kernels"}, {"layers", layers}});
}

void Reporter::write_step(const ResumePoint& point, const objective::Totals& totals,
                          double learning_rate) {
  since_step_.restart();
  const TimeSpent& spent = point.spent;
  const int64_t samples_left =
      (setup_.total_steps - point.step) * std::min(recipe_.train.batch, setup_.train().size());
  Json event = {{"event", "step"},
                {"step", point.step},
                {"steps", setup_.total_steps},
                {"epoch", (point.step - 1) / setup_.steps_per_epoch + 1},
                {"epochs", (setup_.total_steps - 1) / setup_.steps_per_epoch + 1}};
  event.update(training_.figures(totals, ""));
  event.update({{"lr", learning_rate},
                {"samples_per_second", spent.samples_per_second()},
                {"seconds_left", static_cast<double>(samples_left) / spent.samples_per_second()},
                {"bytes_sent", bytes_sent(setup_.group)},
                {"spans", to_json(spent.spans)}});
  events_.write(event);
}

void Reporter::evaluate(int64_t step) {
  events_.write({{"event", "evaluate"}, {"step", step}});
}

double Reporter::epochs_until(int64_t step) const {
  return static_cast<double>(step) / static_cast<double>(setup_.steps_per_epoch);
}

void Reporter::epoch(const ResumePoint& point, const Evaluation& evaluation) {
  Json event = {{"event", "epoch"}, {"epoch", epochs_until(point.step)}, {"step", point.step}};
  event.update(figures(point, evaluation));
  event["best"] = best(point);
  events_.write(event);
  write_tables(point.step, split(), evaluation);
}

// {"train_loss": ..., "test_loss": ..., ...}
Json Reporter::figures(const ResumePoint& point, const Evaluation& evaluation) const {
  Json figures = training_.figures(point.last_epoch, "train_");
  figures.update(setup_.evaluation.figures(evaluation.totals, split() + "_"));
  return figures;
}

// {"figure": "test_loss", "value": 0.31, "epoch": 7, "step": 3283}; null if there is none.
Json Reporter::best(const ResumePoint& point) const {
  if (point.best.step == 0) return nullptr;
  return {{"figure", fmt::format("{}_{}", split(), setup_.ranking.figure())},
          {"value", point.best.value},
          {"epoch", epochs_until(point.best.step)},
          {"step", point.best.step}};
}

void Reporter::write_tables(int64_t step, const std::string& split, const Evaluation& evaluation) {
  if (evaluation.tables.empty() || folder_ == nullptr) return;
  if (evaluation.tables.size() <= kLargestTables) {
    events_.write({{"event", "evaluation"},
                   {"step", step},
                   {"split", split},
                   {"tables", setup_.evaluation.table_figures(evaluation.tables)}});
  } else if (!large_tables_mentioned_) {
    large_tables_mentioned_ = true;
    warn(fmt::format("metric tables of {} numbers are too large for events.jsonl and are left out",
                     evaluation.tables.size()));
  }
}

void Reporter::stragglers(int64_t step, const StragglerReport& report, double seconds) {
  if (report.ranks.size() < 2) return;
  Json ranks = Json::array();
  for (const auto& [steps_late, seconds_caused] : report.ranks)
    ranks.push_back({{"steps_late", steps_late}, {"seconds_caused", seconds_caused}});
  events_.write(
      {{"event", "stragglers"},
       {"step", step},
       {"steps", report.steps},
       {"ranks", ranks},
       {"message", noticeable_waiting(report, seconds)
                       .value_or("no straggler: ranks waited for less than 1 % of the time")}});
}

void Reporter::checkpoint(const run::CheckpointWriter::Written& written) {
  events_.write({{"event", "checkpoint"},
                 {"step", written.step},
                 {"path", written.path.string()},
                 {"seconds", written.seconds}});
}

Json Reporter::stopped(int64_t step) {
  Json event = {
      {"event", "stopped"}, {"step", step}, {"steps", setup_.total_steps}, {"out", out()}};
  events_.write(event);
  return event;
}

Json Reporter::end(const ResumePoint& point, const Results& last, const StragglerReport& report,
                   double seconds) {
  if (last.test) write_tables(point.step, "test", *last.test);
  const Json bytes_by_kind = bytes_sent_by_all(setup_.group);
  int64_t bytes = 0;
  for (const auto& [kind, count] : bytes_by_kind.items()) bytes += count.get<int64_t>();
  const TimeSpent& spent = point.spent;
  Json event = {{"event", "end"},
                {"model_sha256", last.model_sha256},
                {"steps", point.step},
                {"epochs", epochs_until(point.step)},
                {"ended_early", point.step < setup_.total_steps}};
  event.update(figures(point, last.of_epoch));
  if (last.test) event.update(setup_.evaluation.figures(last.test->totals, "test_"));
  event["best"] = best(point);
  event.update({{"metrics", objective::shown_metrics(setup_.objective->metrics())},
                {"samples_per_second", spent.samples_per_second()},
                {"seconds", spent.total},
                {"evaluation_seconds", spent.evaluation},
                {"checkpoint_seconds", spent.checkpoint},
                {"workers", setup_.group.world_size()},
                {"shards", shards_of(recipe_)},
                {"bytes_sent", bytes},
                {"bytes_by_kind", bytes_by_kind},
                {"spans", to_json(spent.spans)},
                {"out", out()}});
  if (setup_.mirrors) event["bytes_between_devices"] = to_json(setup_.mirrors->traffic());
  event.update(memory_of_all(setup_));
  event.update(times_of_stages(setup_, spent.spans));
  if (const auto waiting = noticeable_waiting(report, seconds)) event["stragglers"] = *waiting;
  events_.write(event);
  return event;
}

std::optional<std::string> noticeable_waiting(const StragglerReport& report, double seconds) {
  constexpr double kShare = 0.01;
  const bool noticeable = std::any_of(
      report.ranks.begin(), report.ranks.end(),
      [&](const StragglerReport::Rank& rank) { return rank.seconds_caused > kShare * seconds; });
  if (!noticeable) return std::nullopt;
  return report.text();
}

StragglerReport joined(StragglerReport first, const StragglerReport& second) {
  first.steps += second.steps;
  first.ranks.resize(std::max(first.ranks.size(), second.ranks.size()));
  for (size_t rank = 0; rank < second.ranks.size(); ++rank) {
    first.ranks[rank].steps_late += second.ranks[rank].steps_late;
    first.ranks[rank].seconds_caused += second.ranks[rank].seconds_caused;
  }
  return first;
}

}  // namespace lockstep::train
