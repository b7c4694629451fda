// Which ways there are to train a batch on devices of limited memory: see way.h for the words.
#include "fit/ways.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "base/model_error.h"
#include "fit/selection.h"
#include "optim/optimizer.h"

namespace lockstep::fit {
namespace {

constexpr int kMostStages = 8;
constexpr const char* kBf16 = "bf16";

double seconds_of(const PassCost& cost) {
  return cost.forward + cost.backward;
}

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> all;
  for (int64_t i = 1; i <= number; ++i)
    if (number % i == 0) all.push_back(i);
  return all;
}

// The better one comes first: it can be computed, it fits, it is faster or, if neither fits, needs
// less.
auto rank_of(const Way& way) {
  return std::tuple(!way.refusal.empty(), !way.fits, way.fits ? way.seconds_per_step : 0.0,
                    !way.known, way.needs.sum(), way.samples_per_pass);
}

// With as few passes as fit; nothing is measured after the first that does.
Way with_fewest_passes(const Way& way, const Question& question, Costs& costs) {
  const int64_t shard = question.recipe.train.batch / way.pipelines;
  std::vector<Way> tried;
  for (const int64_t pieces : divisors(shard)) {
    Way one = way;
    one.accumulate = pieces;
    one.samples_per_pass = shard / pieces;
    tried.push_back(predicted(std::move(one), question, costs));
    if (tried.back().fits) break;
  }
  return *std::ranges::min_element(tried, {}, rank_of);
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
  return *std::ranges::min_element(tried, {}, rank_of);
}

// With passes of as few samples as the model computes.
Way with_smallest_passes(Way way, const Question& question, Costs& costs) {
  for (const int64_t samples : divisors(question.recipe.train.batch)) {
    way.samples_per_pass = samples;
    way.accumulate = question.recipe.train.batch / samples;
    way = predicted(std::move(way), question, costs);
    if (way.refusal.empty()) break;
  }
  return way;
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

// Into how many stages the model can be divided.
int most_stages(const Question& question, const Costs& costs) {
  return std::min(static_cast<int>(costs.model().blocks.size()), question.most_devices);
}

std::vector<bool> with_recomputation_and_without(const Costs& costs) {
  return costs.model().unrecomputed.empty() ? std::vector<bool>{false, true}
                                            : std::vector<bool>{false};
}

// The least memory that stages can do with: the smallest passes, each number of stages, and if that
// is not enough, one micro-batch in flight. The first that fits is added.
void add_smallest_stages(std::vector<Way>& all, const Question& question, Costs& costs) {
  for (const char* schedule : {"1f1b", "sequential"})
    for (const bool recompute : with_recomputation_and_without(costs))
      for (int stages = 2; stages <= most_stages(question, costs); ++stages) {
        const Way way = with_smallest_passes({.stages = stages,
                                              .recompute = recompute,
                                              .precision = question.recipe.train.precision,
                                              .schedule = schedule},
                                             question, costs);
        if (!way.fits) continue;
        all.push_back(way);
        return;
      }
}

void require_some_computed(const std::vector<Way>& ways) {
  const auto is_computed = [](const Way& way) { return way.refusal.empty(); };
  if (!ways.empty() && std::ranges::none_of(ways, is_computed))
    throw ModelError(ways.front().refusal);
}

// Nothing if the model cannot compute the pass.
std::optional<KnownCost> cost_unless_refused(const Pass& pass, Costs& costs) {
  try {
    return costs.of(pass);
  } catch (const ModelError&) {
    return std::nullopt;
  }
}

// Adds them if the device computes this model in bf16, not many times as slowly as in fp32. Returns
// why not, or nothing.
std::string add_bf16_ways(std::vector<Way>& all, const Question& question, Costs& costs) {
  constexpr double kMostTimes = 4;
  const Way half = with_smallest_passes({.precision = kBf16}, question, costs);
  if (!half.refusal.empty()) return half.refusal;
  if (!half.known) return "not even the smallest pass could be measured";
  const Pass pass{.layers = costs.all_layers(), .samples = half.samples_per_pass};
  if (const std::optional<KnownCost> usual = cost_unless_refused(pass, costs);
      usual && usual->known) {
    Pass same = pass;
    same.precision = kBf16;
    const double times = seconds_of(costs.of(same).cost) / seconds_of(usual->cost);
    if (times > kMostTimes) return fmt::format("its passes take {:.0f} times as long", times);
  }
  add_ways(all, {.precision = kBf16}, question, costs);
  return "";
}

// What ways there are not, since the model throws for so many samples.
std::vector<std::string> without_refused_samples(const Recipe& recipe, const Costs& costs) {
  std::vector<int64_t> samples;
  std::string why;
  for (const auto& [pass, refusal] : costs.refusals()) {
    if (pass.first != recipe.train.precision || recipe.train.batch % pass.second != 0) continue;
    samples.push_back(pass.second);
    if (why.empty()) why = refusal;
  }
  if (samples.empty()) return {};
  return {fmt::format("Ways with passes of so many samples are left out: {}. {}",
                      fmt::join(samples, ", "), why)};
}

FoundWays all_ways(const Question& question, Costs& costs) {
  const Recipe& recipe = question.recipe;
  const std::string& precision = recipe.train.precision;
  FoundWays found;
  std::vector<Way>& all = found.ways;
  for (int stages = 1; stages <= std::min(most_stages(question, costs), kMostStages); stages *= 2)
    for (const bool recompute : with_recomputation_and_without(costs))
      add_ways(all, {.stages = stages, .recompute = recompute, .precision = precision}, question,
               costs);
  if (std::ranges::none_of(all, [](const Way& way) { return way.fits; }))
    add_smallest_stages(all, question, costs);
  require_some_computed(all);
  if (precision != kBf16)
    if (const std::string why = add_bf16_ways(all, question, costs); !why.empty())
      found.left_out.push_back(fmt::format("bf16 is left out: {}", why));
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
  std::erase_if(all, [](const Way& way) { return !way.refusal.empty(); });
  for (const std::string& sentence : without_refused_samples(recipe, costs))
    found.left_out.push_back(sentence);
  return found;
}

// What no way has, and why.
std::vector<std::string> what_no_way_has(const FoundWays& found, const Question& question,
                                         const Costs& costs) {
  const Recipe& recipe = question.recipe;
  const int64_t batch = recipe.train.batch;
  const auto some = [&](auto has) { return std::ranges::any_of(found.ways, has); };
  std::vector<std::string> sentences;
  if (costs.model().unrecomputed.empty() && !some([](const Way& way) { return way.recompute; }) &&
      some([](const Way& way) { return way.known; }))
    sentences.emplace_back(
        "No recomputation: computing layers again would need as much memory as without");
  if (!optim::optimizers().at(recipe.optimizer.name).elementwise && question.most_devices > 1)
    sentences.push_back(
        fmt::format("No ZeRO: {} updates whole tensors, so that its state cannot be divided",
                    recipe.optimizer.name));
  const std::vector<int64_t> parts = divisors(batch);
  if (question.most_devices > 1 && (parts.size() < 2 || parts[1] > question.most_devices))
    sentences.push_back(fmt::format(
        "No data parallelism: a batch of {} cannot be divided into equal parts for {} "
        "devices{}",
        batch, question.most_devices == 2 ? "2" : fmt::format("2 to {}", question.most_devices),
        batch % 2 == 1 ? fmt::format("; one of {} can", batch + 1) : ""));
  return sentences;
}

}  // namespace

FoundWays find_ways(const Question& question, Costs& costs) {
  FoundWays found = all_ways(question, costs);
  found.ways = selected(found.ways, question.recipe);
  for (std::string& sentence : what_no_way_has(found, question, costs))
    found.left_out.push_back(std::move(sentence));
  std::ranges::sort(found.ways, {}, [](const Way& way) {
    return std::tuple(!way.fits, !way.known, way.seconds_per_step, way.devices());
  });
  return found;
}

LargestBatch largest_batch(const Way& way, int64_t passes, const Question& question, Costs& costs,
                           int64_t most) {
  LargestBatch found;
  std::vector<Way> tried;
  const auto attempt = [&](int64_t samples) -> const Way& {
    Question asked = question;
    asked.recipe.train.batch = passes * samples;
    Way one = way;
    one.samples_per_pass = samples;
    tried.push_back(predicted(std::move(one), asked, costs));
    if (tried.back().fits)
      found = {asked.recipe.train.batch, tried.back().needs, tried.back().split};
    return tried.back();
  };
  const int64_t all = most / passes;
  int64_t good = 0, bad = all + 1;
  for (int64_t next = 1, last = 0; next < bad && last < all; next = std::min(2 * next, all)) {
    last = next;
    // A model that throws for few samples, as BatchNorm does for one, may compute more.
    if (const Way& way_of_next = attempt(next); way_of_next.refusal.empty())
      (way_of_next.fits ? good : bad) = next;
  }
  require_some_computed(tried);
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (attempt(middle).fits ? good : bad) = middle;
  }
  found.is_all_samples = good > 0 && good == all;
  return found;
}

}  // namespace lockstep::fit
