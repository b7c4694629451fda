// Which ways there are to train a batch on devices of limited memory, and what each needs.
//
// A *way* divides a batch among `pipelines`, each of which has one shard, computed in `accumulate`
// pieces with one *pass* each; a pipeline has one stage, or several. The memory of a device is the
// sum of what its layers have anyway (parameters, gradients, the optimizer's state), which is
// computed from their sizes, and of what its passes need, which is measured.
#include "fit/ways.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "collective/plan/shards.h"
#include "optim/optimizer.h"
#include "pipeline/schedule.h"
#include "pipeline/split.h"
#include "sim/pipeline.h"
#include "sim/predict.h"

namespace lockstep::fit {
namespace {

constexpr int kMostStages = 8;
constexpr const char* kBf16 = "bf16";
constexpr int kMostSimulated = 64;  ///< ranks; with more, the time of a ring is used

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> all;
  for (int64_t i = 1; i <= number; ++i)
    if (number % i == 0) all.push_back(i);
  return all;
}

bool is_narrow(const Recipe& recipe) {
  return recipe.train.compress == "f16" || recipe.train.compress == "bf16";
}

// Of one device that computes `layers`, with `in_flight` micro-batches between their passes and the
// gradients of its inputs, which are kept until the next ones are sent.
DeviceNeeds needs_of(const Way& way, const Question& question, Range layers, const PassCost& pass,
                     Costs& costs, int in_flight = 1, int64_t sent_gradients = 0) {
  const LayerSize size = costs.size_of(layers);
  const Recipe& recipe = question.recipe;
  const auto& optimizer = optim::optimizers().at(recipe.optimizer.name);
  const int64_t state = optimizer.state_per_parameter * size.trained;
  const bool has_samples = layers.begin == 0 || layers.end == costs.all_layers().end;
  const int64_t share = way.shards * way.accumulate * way.samples_per_pass;
  const int64_t slots = collective::depth(way.shards) + 1;
  return {.parameters = size.state,
          .gradients =
              is_narrow(recipe) ? size.trained + slots * size.trained / 2 : slots * size.trained,
          .optimizer = way.zero ? (state + way.pipelines - 1) / way.pipelines : state,
          .activations = pass.kept + pass.peak + (in_flight - 1) * pass.held + sent_gradients,
          // The loader prepares the next batch on the device while one is computed.
          .batches = has_samples ? 2 * share * costs.meter().bytes_per_sample() : 0};
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

Way predicted_without_stages(Way way, const Question& question, Costs& costs) {
  const Range layers = costs.all_layers();
  const auto passes = static_cast<double>(way.shards * way.accumulate);
  const KnownCost known = costs.of({layers, way.samples_per_pass, way.recompute, way.precision});
  way.measured = known.measured;
  way.known = known.known;
  way.needs = needs_of(way, question, layers, known.cost, costs);
  const int64_t trained = costs.size_of(layers).trained;
  way.seconds_per_step =
      passes * (known.cost.forward + known.cost.backward) +
      costs.update_seconds(way.zero ? trained / way.pipelines : trained) +
      exchange_seconds(way.pipelines, trained, known.cost.backward, question.network);
  return way;
}

// The fastest split of those that fit, as far as the costs of single layers tell.
std::vector<Range> split_of(const Way& way, const Question& question,
                            const pipeline::PipelineSchedule& schedule, Costs& costs) {
  std::vector<pipeline::LayerCost> layers =
      costs.of_layers({costs.all_layers(), way.samples_per_pass, way.recompute, way.precision});
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    layers[i].state += needs_of(way, question, {number, number + 1}, {}, costs).sum();
  }
  return fitted_split(layers, schedule, question.limit).split;
}

Way predicted_with_stages(Way way, const Question& question, Costs& costs) {
  const auto& row = pipeline::pipeline_schedules().at(way.schedule);
  const pipeline::PipelineSchedule schedule = make_schedule(
      row, {.stages = way.stages, .micro_batches = static_cast<int>(way.shards * way.accumulate)});
  const std::vector<int> in_flight = pipeline::memory_in_flight(schedule);
  if (way.split.empty()) way.split = split_of(way, question, schedule, costs);
  sim::PipelineCosts times;
  double after = 0;
  int64_t sent_gradients = 0;
  for (size_t stage = 0; stage < way.split.size(); ++stage) {
    const Range layers = way.split[stage];
    const auto [cost, measured, known] =
        costs.of({layers, way.samples_per_pass, way.recompute, way.precision});
    way.measured = way.measured && measured;
    way.known = way.known && known;
    const DeviceNeeds needs =
        needs_of(way, question, layers, cost, costs, in_flight[stage], sent_gradients);
    if (needs.sum() > way.needs.sum()) way.needs = needs;
    if (schedule.shape.micro_batches > 1) sent_gradients = cost.sent;
    const auto message = [&](int64_t bytes) {
      return question.network.latency +
             static_cast<double>(bytes) / question.network.bytes_per_second;
    };
    times.forward.push_back(cost.forward);
    times.backward.push_back(cost.backward);
    times.output.push_back(message(cost.sent));
    times.gradient.push_back(times.output[stage > 0 ? stage - 1 : 0]);
    const int64_t trained = costs.size_of(layers).trained;
    after = std::max(after,
                     costs.update_seconds(way.zero ? trained / way.pipelines : trained) +
                         exchange_seconds(way.pipelines, trained, cost.backward, question.network));
  }
  way.seconds_per_step = sim::simulate(schedule, times).seconds + after;
  return way;
}

// With as few passes as fit; nothing is measured after the first that does.
Way with_fewest_passes(Way way, const Question& question, Costs& costs) {
  const int64_t shard = question.recipe.train.batch / way.pipelines;
  for (const int64_t pieces : divisors(shard)) {
    way.accumulate = pieces;
    way.samples_per_pass = shard / pieces;
    way = predicted(way, question, costs);
    if (way.fits) break;
  }
  return way;
}

// The fastest that fits, with stages: more micro-batches have a smaller bubble, and longer passes
// are faster for each sample.
Way with_fastest_passes(Way way, const Question& question, Costs& costs) {
  const int64_t shard = question.recipe.train.batch / way.pipelines;
  std::vector<Way> tried;
  for (const int64_t pieces : divisors(shard)) {
    if (pieces < way.stages && pieces < shard) continue;
    if (pieces > int64_t{8} * way.stages &&
        std::ranges::any_of(tried, [](const Way& each) { return each.fits; }))
      break;
    Way one = way;
    one.accumulate = pieces;
    one.samples_per_pass = shard / pieces;
    tried.push_back(predicted(std::move(one), question, costs));
  }
  return *std::ranges::min_element(tried, {}, [](const Way& each) {
    return std::tuple(!each.fits, each.fits ? each.seconds_per_step : 0.0, each.needs.sum());
  });
}

// Whether it is one of the ways that everyone looks for, and not a combination of several. Pieces
// and ZeRO complete others.
bool is_plain(const Way& way, const Recipe& recipe) {
  return (way.pipelines > 1) + (way.stages > 1) + way.recompute +
             (way.precision != recipe.train.precision) <=
         1;
}

// With every number of pipelines, and with ZeRO and without.
void add_ways(std::vector<Way>& all, Way way, const Question& question, Costs& costs) {
  const Recipe& recipe = question.recipe;
  const bool can_divide_state = optim::optimizers().at(recipe.optimizer.name).elementwise;
  for (const int64_t pipelines : divisors(recipe.train.batch))
    for (const bool zero : {false, true}) {
      if (zero && (pipelines == 1 || !can_divide_state)) continue;
      way.pipelines = static_cast<int>(pipelines);
      way.zero = zero;
      if (way.devices() > question.most_devices) continue;
      all.push_back(way.stages == 1 ? with_fewest_passes(way, question, costs)
                                    : with_fastest_passes(way, question, costs));
    }
}

// The least memory that stages can do with: passes of one sample, each number of stages, and if
// that is not enough, one micro-batch in flight. The first that fits is added.
void add_smallest_stages(std::vector<Way>& all, const Question& question, Costs& costs) {
  if (!costs.meter().undivided().empty()) return;
  const int most = std::min(static_cast<int>(costs.layers().size()), question.most_devices);
  for (const char* schedule : {"1f1b", "sequential"})
    for (const bool recompute : {false, true})
      for (int stages = 2; stages <= most; ++stages) {
        const Way way = predicted({.stages = stages,
                                   .accumulate = question.recipe.train.batch,
                                   .recompute = recompute,
                                   .precision = question.recipe.train.precision,
                                   .schedule = schedule},
                                  question, costs);
        if (!way.fits) continue;
        all.push_back(way);
        return;
      }
}

// If the device computes this model in bf16, not many times as slowly as in fp32.
void add_bf16_ways(std::vector<Way>& all, const Question& question, Costs& costs) {
  constexpr double kMostTimes = 4;
  Pass pass{.layers = costs.all_layers()};
  const auto seconds = [&] {
    const PassCost cost = costs.of(pass).cost;
    return cost.forward + cost.backward;
  };
  const double usual = seconds();
  pass.precision = kBf16;
  try {
    if (seconds() > kMostTimes * usual) return;
    std::vector<Way> ways;
    add_ways(ways, {.precision = kBf16}, question, costs);
    all.insert(all.end(), ways.begin(), ways.end());
  } catch (const std::exception&) {  // LibTorch has not every operator in every precision
  }
}

std::vector<Way> all_ways(const Question& question, Costs& costs) {
  const Recipe& recipe = question.recipe;
  const std::string& precision = recipe.train.precision;
  const auto layers = static_cast<int>(costs.layers().size());
  std::vector<Way> all;
  for (int stages = 1; stages <= std::min({layers, kMostStages, question.most_devices});
       stages *= 2)
    for (const bool recompute : {false, true})
      if (!recompute || costs.meter().undivided().empty())
        add_ways(all, {.stages = stages, .recompute = recompute, .precision = precision}, question,
                 costs);
  if (std::ranges::none_of(all, [](const Way& way) { return way.fits; }))
    add_smallest_stages(all, question, costs);
  if (precision != kBf16) add_bf16_ways(all, question, costs);
  // The batch at once on one device, and divided among devices with nothing else.
  for (const int64_t pipelines : divisors(recipe.train.batch)) {
    if (pipelines > question.most_devices) break;
    const Way way = predicted({.pipelines = static_cast<int>(pipelines),
                               .precision = precision,
                               .samples_per_pass = recipe.train.batch / pipelines},
                              question, costs);
    all.push_back(way);
    if (way.fits && pipelines > 1) break;
  }
  return all;
}

// Recomputation and ZeRO cost time or messages: where the same way fits without, leave them out.
bool is_better_without(const Way& way, const std::vector<Way>& all) {
  return std::ranges::any_of(all, [&](const Way& other) {
    const bool same = other.pipelines == way.pipelines && other.stages == way.stages &&
                      other.precision == way.precision;
    const bool leaves_out = (way.recompute && !other.recompute && other.zero <= way.zero) ||
                            (way.zero && !other.zero && other.recompute <= way.recompute);
    return same && leaves_out && other.fits &&
           (other.seconds_per_step <= way.seconds_per_step || !way.fits);
  });
}

using Identity = std::tuple<int, int, int64_t, bool, bool, std::string>;
Identity identity(const Way& way) {
  return {way.pipelines, way.stages, way.accumulate, way.recompute, way.zero, way.precision};
}

// Whether no other way that fits is faster on no more devices. Another precision has another
// result, so it is no reason to leave a way out.
bool is_worth_its_devices(const Way& way, const std::vector<Way>& all) {
  return way.fits && std::ranges::none_of(all, [&](const Way& other) {
           return other.fits && other.precision == way.precision &&
                  other.devices() <= way.devices() && other.seconds_per_step < way.seconds_per_step;
         });
}

std::vector<Way> selected(const std::vector<Way>& all, const Recipe& recipe) {
  std::vector<Way> chosen;
  std::map<std::string, std::vector<Way>> plain;
  for (const Way& way : all) {
    if (is_plain(way, recipe)) plain[way.name()].push_back(way);
    if (is_worth_its_devices(way, all) && !is_better_without(way, all)) chosen.push_back(way);
  }
  for (const auto& [name, ways] : plain)
    chosen.push_back(*std::ranges::min_element(ways, {}, [](const Way& way) {
      return way.fits ? std::tuple(0, int64_t{way.devices()}, way.seconds_per_step)
                      : std::tuple(1, way.needs.sum(), way.seconds_per_step);
    }));
  std::set<Identity> seen;
  std::erase_if(chosen, [&](const Way& way) { return !seen.insert(identity(way)).second; });
  return chosen;
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
  way = way.stages == 1 ? predicted_without_stages(std::move(way), question, costs)
                        : predicted_with_stages(std::move(way), question, costs);
  way.fits = way.needs.sum() <= question.limit;
  return way;
}

std::vector<Way> find_ways(const Question& question, Costs& costs) {
  std::vector<Way> ways = selected(all_ways(question, costs), question.recipe);
  std::ranges::sort(ways, {}, [](const Way& way) {
    return std::tuple(!way.fits, !way.known, way.seconds_per_step, way.devices());
  });
  return ways;
}

LargestBatch largest_batch(const Way& way, int64_t passes, const Question& question, Costs& costs,
                           int64_t most) {
  LargestBatch found;
  const auto fits = [&](int64_t samples) {
    Question asked = question;
    asked.recipe.train.batch = passes * samples;
    Way tried = way;
    tried.samples_per_pass = samples;
    tried = predicted(std::move(tried), asked, costs);
    if (tried.fits) found = {asked.recipe.train.batch, tried.needs, tried.split};
    return tried.fits;
  };
  const int64_t all = most / passes;
  int64_t good = 0, bad = all + 1;
  for (int64_t next = 1; next < bad && good < all; next = std::min(2 * next, all))
    (fits(next) ? good : bad) = next;
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  found.is_all_samples = good > 0 && good == all;
  return found;
}

}  // namespace lockstep::fit
