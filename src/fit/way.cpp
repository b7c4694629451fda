// What one way to train a batch needs of memory and time.
//
// A *way* divides a batch among `pipelines`, each of which has one shard, computed in `accumulate`
// pieces with one *pass* each; a pipeline has one stage, or several. The memory of a device is the
// sum of what its layers have anyway (parameters, gradients, the optimizer's state), which is
// computed from their sizes, and of what its passes need, which is measured.
#include "fit/way.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/model_error.h"
#include "collective/plan/shards.h"
#include "pipeline/in_one_order.h"
#include "pipeline/schedule.h"
#include "pipeline/split.h"
#include "sim/pipeline.h"
#include "sim/predict.h"

namespace lockstep::fit {
namespace {

constexpr int kMostSimulated = 64;  ///< ranks; with more, the time of a ring is used

bool is_narrow(const Recipe& recipe) {
  return recipe.train.compress == "f16" || recipe.train.compress == "bf16";
}

// Of one device that computes `layers`, besides what their passes need.
DeviceNeeds needs_of(const Way& way, const Question& question, Range layers, const Costs& costs) {
  const LayerSize size = costs.size_of(layers);
  const MemoryNeeds state =
      memory_needs(size.state, size.trained, question.recipe, collective::depth(way.shards) + 1,
                   way.zero ? way.pipelines : 1);
  const bool has_some =
      has_samples(way.place, layers.begin == 0, layers.end == costs.all_layers().end);
  const int64_t samples = has_some ? way.shards * way.accumulate * way.samples_per_pass : 0;
  return {.parameters = state.parameters,
          .gradients = state.gradients,
          .optimizer = state.optimizer,
          .batches = bytes_of_batches(question.recipe, samples, costs.model().bytes_per_sample)};
}

// How long devices wait for gradients: what does not overlap with the last backward pass.
double exchange_seconds(int workers, int64_t bytes, double backward, const sim::Network& network) {
  if (workers == 1) return 0;
  double seconds = 0;
  if (workers <= kMostSimulated) {
    seconds = sim::predict(workers, bytes, network, sim::Among::canonical).front().seconds;
  } else {
    const double ranks = workers;
    seconds = 2 * (ranks - 1) / ranks * static_cast<double>(bytes) / network.bytes_per_second +
              2 * std::log2(ranks) * network.latency;
  }
  const double last_bucket =
      seconds * std::min(1.0, static_cast<double>(int64_t{1} << 20) / static_cast<double>(bytes));
  return std::max(last_bucket, seconds - backward);
}

// Of the optimizer's update, and of the exchange of gradients that is not over by then.
double seconds_after_passes(const Way& way, const Question& question, Range layers,
                            const PassCost& pass, Costs& costs) {
  const int64_t trained = costs.size_of(layers).trained;
  const int64_t exchanged = is_narrow(question.recipe) ? trained / 2 : trained;
  return costs.update_seconds(way.zero ? trained / way.pipelines : trained) +
         exchange_seconds(way.pipelines, exchanged, pass.backward, question.network);
}

Way predicted_without_stages(Way way, const Question& question, Costs& costs) {
  const Range layers = costs.all_layers();
  const auto passes = static_cast<double>(way.shards * way.accumulate);
  const KnownCost known = costs.of({layers, way.samples_per_pass, way.recompute, way.precision});
  way.measured = known.measured;
  way.known = known.known;
  way.needs = needs_of(way, question, layers, costs);
  way.needs.activations = known.cost.kept + known.cost.peak;
  way.seconds_per_step = passes * (known.cost.forward + known.cost.backward) +
                         seconds_after_passes(way, question, layers, known.cost, costs);
  return way;
}

// The fastest split of those that fit, as far as the costs of single layers tell.
std::vector<Range> split_of(const Way& way, const Question& question,
                            const pipeline::PipelineSchedule& schedule, Costs& costs) {
  std::vector<pipeline::LayerCost> layers =
      costs.of_layers({costs.all_layers(), way.samples_per_pass, way.recompute, way.precision});
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    layers[i].state += needs_of(way, question, {number, number + 1}, costs).sum();
  }
  const int64_t limit = way.place == StagePlace::one_device ? 0 : question.limit;
  return fitted_split(layers, schedule, limit, costs.model().blocks).split;
}

// Of the messages that a stage between workers has sent or is receiving, besides their tensors: of
// those in flight, and one in either direction. They are in the CPU's memory.
int64_t bytes_of_messages(const Question& question, int in_flight, int64_t drawn) {
  constexpr int64_t kHeader = 1024;
  return question.recipe.device.kind == "cpu" ? (in_flight + 2) * (kHeader + drawn) : 0;
}

// Of the device that needs most: each has one stage, with micro-batches between their passes, and
// with the gradients of its inputs, which are kept until the next ones are sent.
DeviceNeeds most_of_stages(const Way& way, const Question& question,
                           const pipeline::PipelineSchedule& schedule,
                           const std::vector<PassCost>& passes, const Costs& costs) {
  const std::vector<int> in_flight = pipeline::memory_in_flight(schedule);
  DeviceNeeds most;
  int64_t drawn = 0;
  for (size_t stage = 0; stage < passes.size(); ++stage) {
    const PassCost& pass = passes[stage];
    const bool sends_gradients = stage > 0 && schedule.shape.micro_batches > 1;
    DeviceNeeds needs = needs_of(way, question, way.split[stage], costs);
    needs.activations = pass.kept + pass.peak + (in_flight[stage] - 1) * pass.held +
                        (sends_gradients ? passes[stage - 1].sent : 0);
    drawn = std::max(drawn, pass.drawn);
    if (way.place == StagePlace::workers)
      needs.activations += bytes_of_messages(question, in_flight[stage], drawn);
    if (needs.sum() > most.sum()) most = needs;
  }
  return most;
}

// Of the one device that has all stages, which compute one at a time. A stage's inputs are the
// outputs that the one before it holds.
DeviceNeeds sum_of_stages(const Way& way, const Question& question,
                          const pipeline::PipelineSchedule& schedule,
                          const std::vector<PassCost>& passes, const Costs& costs) {
  DeviceNeeds needs = needs_of(way, question, costs.all_layers(), costs);
  int64_t held = 0, most = 0;
  for (const pipeline::Action& action : in_one_order(schedule)) {
    if (!action.computes()) continue;
    const auto part = static_cast<size_t>(action.part);
    const PassCost& pass = passes[part];
    const int64_t own = pass.held - (part > 0 ? std::min(passes[part - 1].sent, pass.held) : 0);
    if (action.kind == pipeline::Action::Kind::forward) held += own;
    most = std::max(most, held + pass.peak - pass.held);
    if (action.kind == pipeline::Action::Kind::backward) held -= own;
  }
  for (const PassCost& pass : passes) needs.activations += pass.kept;
  needs.activations += most;
  return needs;
}

Way predicted_with_stages(Way way, const Question& question, Costs& costs) {
  const auto& row = pipeline::pipeline_schedules().at(way.schedule);
  const pipeline::PipelineSchedule schedule = make_schedule(
      row, {.stages = way.stages, .micro_batches = static_cast<int>(way.shards * way.accumulate)});
  if (way.split.empty()) way.split = split_of(way, question, schedule, costs);
  std::vector<PassCost> passes;
  sim::PipelineCosts times;
  double after = 0;
  for (size_t stage = 0; stage < way.split.size(); ++stage) {
    const Range layers = way.split[stage];
    const auto [cost, measured, known] =
        costs.of({layers, way.samples_per_pass, way.recompute, way.precision});
    way.measured = way.measured && measured;
    way.known = way.known && known;
    passes.push_back(cost);
    const auto message = [&](int64_t bytes) {
      return question.network.latency +
             static_cast<double>(bytes) / question.network.bytes_per_second;
    };
    times.forward.push_back(cost.forward);
    times.backward.push_back(cost.backward);
    times.output.push_back(message(cost.sent));
    times.gradient.push_back(times.output[stage > 0 ? stage - 1 : 0]);
    after = std::max(after, seconds_after_passes(way, question, layers, cost, costs));
  }
  const bool shares_device = way.place == StagePlace::one_device;
  way.needs =
      (shares_device ? sum_of_stages : most_of_stages)(way, question, schedule, passes, costs);
  way.seconds_per_step = sim::simulate(schedule, times).seconds + after;
  return way;
}

}  // namespace

std::string Way::name() const {
  std::vector<std::string> parts;
  if (stages > 1) parts.emplace_back("pipeline");
  if (pipelines > 1) parts.emplace_back("data parallel");
  if (stages == 1 && accumulate > 1) parts.emplace_back("accumulate");
  if (recompute) parts.emplace_back("recompute");
  if (zero) parts.emplace_back("zero");
  if (precision != "fp32") parts.push_back(precision);
  if (parts.empty()) return "one device";
  return fmt::format("{}", fmt::join(parts, " + "));
}

std::vector<std::string> Way::flags(const Recipe& recipe) const {
  std::vector<std::string> flags = {"--batch", fmt::format("{}", recipe.train.batch), "--shards",
                                    fmt::format("{}", pipelines * shards)};
  const auto add = [&](const char* flag, const std::string& value) {
    flags.insert(flags.end(), {flag, value});
  };
  const auto has = [](auto own, auto recipes, auto usual) {
    return own != usual || recipes != usual;
  };
  if (has(accumulate, recipe.train.accumulate, 1))
    add("--accumulate", fmt::format("{}", accumulate));
  if (devices() > 1) add("--workers", fmt::format("{}", devices()));
  if (has(stages, recipe.parallel.stages, 1)) add("--stages", fmt::format("{}", stages));
  if (stages > 1 && has(schedule, recipe.parallel.schedule, "1f1b")) add("--schedule", schedule);
  if (stages > 1 || !recipe.parallel.split.empty()) add("--split", pipeline::to_text(split));
  if (recipe.parallel.parts_per_stage > 0) add("--set", "parallel.parts_per_stage=0");
  if (has(recompute, recipe.parallel.recompute, false))
    add("--set", fmt::format("parallel.recompute={}", recompute));
  if (zero)
    flags.emplace_back("--zero");
  else if (recipe.parallel.zero)
    add("--set", "parallel.zero=false");
  if (has(precision, recipe.train.precision, std::string("fp32"))) add("--precision", precision);
  return flags;
}

Way predicted(Way way, const Question& question, Costs& costs) {
  way.measured = way.known = true;
  way.needs = {};
  way.refusal.clear();
  try {
    way = way.stages == 1 ? predicted_without_stages(way, question, costs)
                          : predicted_with_stages(way, question, costs);
  } catch (const ModelError& error) {
    way.refusal = error.what();
    way.known = false;
  }
  way.fits = way.known && way.needs.sum() <= question.limit;
  return way;
}

}  // namespace lockstep::fit
