// Strong scaling: every way trains the same recipe, so the same global batch in the same shards,
// on more devices. Since results depend on shards alone, all ways must end with the same model; a
// difference is an error, as is a comparison of ways that compute something else.
//
// Every device has the same number of threads, and a run gets as many processors as its devices
// have threads: what the host does for the devices is part of the price. Ways take turns in each
// round, so that whatever else the machine does meets all of them, and the fastest round counts.
#include "lab/dp_vs_ddp.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/host.h"
#include "base/units.h"
#include "lab/trial.h"
#include "launch/job.h"
#include "lockstep/error.h"

namespace lockstep::lab {
namespace {

using run::Json;

constexpr int64_t kNever = 1'000'000'000;  // a step that no run reaches

struct Layout {
  DataWay way;
  int devices;
};

void check(const DpVsDdpOptions& options) {
  if (const auto launched = launch::job_from_environment())
    throw BadInput("lab dp-vs-ddp starts workers itself; start it without {}", launched->launcher);
  if (options.devices.empty()) throw BadInput("--devices: lists no number of devices");
  const int64_t most = shards_of(options.recipe);
  for (const int devices : options.devices) {
    if (devices < 1) throw BadInput("--devices {}: expected numbers from 1 on", devices);
    if (devices > most)
      throw BadInput(
          "--devices {}: the recipe has {}, and each device needs at least one; set train.shards "
          "(--shards) to a divisor of {} that is at least {}",
          devices, plural(most, "shard"),
          options.recipe.train.batch / options.recipe.train.accumulate, devices);
  }
  if (options.rounds < 1) throw BadInput("--rounds {}: expected 1 or more", options.rounds);
  if (!(options.deadline_seconds >= 1))
    throw BadInput("--timeout {}: expected 1 second or more", options.deadline_seconds);
  if (const int64_t steps = options.recipe.train.steps; steps > 0 && steps < kWarmUpSteps + 2)
    throw BadInput("train.steps = {}: expected {} or more, since the first {} are not timed", steps,
                   kWarmUpSteps + 2, kWarmUpSteps);
  if (options.recipe.parallel.stages > 1 || options.recipe.parallel.zero)
    throw BadInput(
        "lab dp-vs-ddp compares whole models on each device: leave --stages and --zero out");
}

// One device first, then both ways on each number of devices.
std::vector<Layout> layouts_of(const DpVsDdpOptions& options) {
  std::vector<int> counts = options.devices;
  std::ranges::sort(counts);
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  std::vector<Layout> layouts = {{DataWay::one_device, 1}};
  for (const int devices : counts)
    if (devices > 1) {
      layouts.push_back({DataWay::dp, devices});
      layouts.push_back({DataWay::ddp, devices});
    }
  return layouts;
}

job::TrainingJob job_for(const Layout& layout, const DpVsDdpOptions& options) {
  job::TrainingJob job{.recipe = options.recipe, .plugins = options.plugins};
  Recipe& recipe = job.recipe;
  recipe.parallel.mode = layout.way == DataWay::dp ? "dp" : "ddp";
  recipe.log.every_steps = 1;
  recipe.log.digest_every_steps = 0;
  recipe.checkpoint.every_steps = kNever;
  // The peak of memory is to be that of steps, not of evaluation, which one worker computes alone.
  recipe.evaluate.batch =
      std::min(recipe.evaluate.batch, std::max<int64_t>(recipe.train.batch / pieces_of(recipe), 1));
  if (layout.way == DataWay::ddp) job.placement.asked_workers = layout.devices;
  if (recipe.device.kind == "virtual") {
    job.placement.devices = fmt::format("virtual:{}", layout.devices);
  } else {
    job.placement.devices = "cuda:0";
    for (int i = 1; i < layout.devices; ++i) job.placement.devices += fmt::format(",{}", i);
  }
  return job;
}

const Json& last_event(const std::vector<Json>& events, const std::string& kind) {
  const auto found = std::ranges::find(events.rbegin(), events.rend(), kind,
                                       [](const Json& event) { return event.value("event", ""); });
  if (found == events.rend()) throw Error(fmt::format("the run has no event \"{}\"", kind));
  return *found;
}

double sum_of(const Json& spans) {
  double sum = 0;
  for (const auto& [name, seconds] : spans.items()) sum += seconds.get<double>();
  return sum;
}

// Seconds so far, after each step.
struct Progress {
  double all;
  double exchange;
};
std::vector<Progress> progress_in(const std::vector<Json>& events) {
  std::vector<Progress> found;
  for (const Json& event : events)
    if (event.value("event", "") == "step")
      found.push_back({sum_of(event["spans"]), event["spans"]["exchange"]});
  if (found.size() < kWarmUpSteps + 2)
    throw Error(
        fmt::format("the run has {} steps; expected {} or more", found.size(), kWarmUpSteps + 2));
  return found;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void take_times(DpVsDdpRow& row, const std::vector<Json>& events) {
  const std::vector<Progress> progress = progress_in(events);
  std::vector<double> seconds;
  for (size_t i = kWarmUpSteps; i < progress.size(); ++i)
    seconds.push_back(progress[i].all - progress[i - 1].all);
  row.seconds_per_step = median(std::move(seconds));
  const Progress &first = progress[kWarmUpSteps - 1], &last = progress.back();
  row.waiting = (last.exchange - first.exchange) / (last.all - first.all);
}

void take_bytes(DpVsDdpRow& row, const Json& end) {
  const auto steps = end["steps"].get<int64_t>();
  const int64_t others = std::max(row.devices - 1, 1);
  if (end.contains("bytes_between_devices")) {
    const Json& bytes = end["bytes_between_devices"];
    row.replicated = bytes["replicated"].get<int64_t>() / steps;
    row.scattered = bytes["scattered"].get<int64_t>() / steps;
    row.gathered = bytes["gathered"].get<int64_t>() / steps;
    row.gradients = bytes["reduced"].get<int64_t>() / steps;
    row.first_moves = row.moved();
    row.other_moves = row.moved() / others;
    return;
  }
  row.gathered = end["bytes_by_kind"]["buffers"].get<int64_t>() / steps;
  row.gradients = end["bytes_by_kind"]["gradients"].get<int64_t>() / steps;
  // What workers send, others receive.
  row.first_moves = row.other_moves = 2 * row.moved() / row.devices;
}

void take_memory(DpVsDdpRow& row, const Json& end) {
  const Json all = end.value("memory_by_device", Json::array({end.value("memory", Json())}));
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].is_null()) continue;  // of devices whose memory is not counted
    const auto peak = all[i]["peak"].get<int64_t>();
    if (i == 0)
      row.first_peak = peak;
    else
      row.other_peak = std::max(row.other_peak, peak);
  }
}

void keep_faster(DpVsDdpRow& best, DpVsDdpRow found) {
  if (best.digest.empty() || found.seconds_per_step < best.seconds_per_step)
    best = std::move(found);
}

void require_same_model(const DpVsDdpRow& first, const DpVsDdpRow& row) {
  if (row.digest != first.digest)
    throw Mismatch(
        "{} on {} ended with the model {}, but {} with {}: the same shards must give the same "
        "model; please report this, with the recipe",
        name_of(row.way), plural(row.devices, "device"), row.digest, name_of(first.way),
        first.digest);
}

}  // namespace

std::string name_of(DataWay way) {
  switch (way) {
    case DataWay::one_device:
      return "one device";
    case DataWay::dp:
      return "DataParallel";
    case DataWay::ddp:
      break;
  }
  return "DDP";
}

DpVsDdpRow row_of(DataWay way, int devices, const std::vector<Json>& events) {
  const Json& end = last_event(events, "end");
  DpVsDdpRow row{.way = way, .devices = devices};
  take_times(row, events);
  take_bytes(row, end);
  take_memory(row, end);
  row.digest = end["model_sha256"];
  return row;
}

std::vector<DpVsDdpRow> compare_dp_and_ddp(const DpVsDdpOptions& options) {
  check(options);
  const std::vector<Layout> layouts = layouts_of(options);
  const auto threads = static_cast<int>(options.recipe.train.threads);
  const auto processors = static_cast<int>(allowed_processors().size());
  const size_t runs = layouts.size() * static_cast<size_t>(options.rounds);
  std::vector<DpVsDdpRow> rows(layouts.size());
  for (size_t i = 0; i < runs; ++i) {
    const auto& [way, devices] = layouts[i % layouts.size()];
    options.tell(fmt::format(
        "run {} of {}: {}", i + 1, runs,
        devices == 1 ? name_of(way)
                     : fmt::format("{} on {}", name_of(way), plural(devices, "device"))));
    DpVsDdpRow row = row_of(
        way, devices,
        run_trial(job_for(layouts[i % layouts.size()], options),
                  {.out = options.out / fmt::format("{}-{}-{}", way == DataWay::dp ? "dp" : "ddp",
                                                    devices, i / layouts.size() + 1),
                   .processors = devices * threads,
                   .deadline_seconds = options.deadline_seconds}));
    row.shares_cores = options.recipe.device.kind == "virtual" && devices * threads > processors;
    if (i > 0) require_same_model(rows.front(), row);
    keep_faster(rows[i % layouts.size()], std::move(row));
  }
  for (DpVsDdpRow& row : rows) {
    row.speedup = rows.front().seconds_per_step / row.seconds_per_step;
    row.efficiency = row.speedup / row.devices;
  }
  return rows;
}

}  // namespace lockstep::lab
