#include "pipeline/split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>

#include "base/nearest.h"
#include "base/units.h"
#include "lockstep/error.h"

namespace lockstep::pipeline {
namespace {

// "0 conv1, 1 fc"; of layers that have numbers as names, "0 (Conv2d), 1 (Linear)".
std::string list_of(const std::vector<std::string>& names, const std::vector<std::string>& titles) {
  std::vector<std::string> numbered;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string number = fmt::format("{}", i);
    const std::string& title = titles.empty() ? names[i] : titles[i];
    numbered.push_back(names[i] == number ? title : fmt::format("{} {}", number, names[i]));
  }
  return fmt::format("{}", fmt::join(numbered, ", "));
}

// `option` is the one whose value is parsed: "--split 3,7".
int64_t layer_named(const std::string& word, const std::string& option,
                    const std::vector<std::string>& names, const std::vector<std::string>& titles) {
  if (const auto found = std::ranges::find(names, word); found != names.end())
    return found - names.begin();
  int64_t number = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool is_number = error == std::errc() && end == word.data() + word.size();
  if (!is_number || number < 0 || number >= static_cast<int64_t>(names.size()))
    throw BadInput("{}: '{}' is no layer of the model{}; there are: {}", option, word,
                   is_number ? "" : did_you_mean(word, names), list_of(names, titles));
  return number;
}

void require_parts(size_t made, int parts, const std::string& option, const OptionNames& options) {
  if (made == static_cast<size_t>(parts)) return;
  const auto layers = [](size_t count) { return plural(static_cast<int64_t>(count), "layer"); };
  if (parts == 1)
    throw BadInput(
        "{}: names {}, which makes {} parts, but the model is not divided; set {} = {}, or leave "
        "the split out",
        option, layers(made - 1), made, options.stages, made);
  throw BadInput(
      "{}: names {}, which makes {} parts, but the model is divided into {} ({}); name {} with "
      "which parts begin",
      option, layers(made - 1), made, parts, options.stages,
      layers(static_cast<size_t>(parts) - 1));
}

}  // namespace

void require_enough_layers(size_t layers, int parts) {
  if (static_cast<size_t>(parts) > layers)
    throw BadInput(
        "a model of {} layers cannot be divided into {} parts: use fewer stages or parts per "
        "stage, at most {} parts in all",
        layers, parts, layers);
}

void require_enough_blocks(const std::vector<Range>& blocks, int parts) {
  if (static_cast<size_t>(parts) <= blocks.size()) return;
  const int64_t layers = blocks.empty() ? 0 : blocks.back().end;
  throw BadInput(
      "a model of {} layers cannot be divided into {} parts: every part must have trained "
      "parameters, and layers that share weights must be in one part; use at most {}",
      layers, parts, plural(static_cast<int64_t>(blocks.size()), "part"));
}

std::vector<Range> parse_split(const std::string& text, const std::vector<std::string>& names,
                               int parts, const OptionNames& options,
                               const std::vector<std::string>& titles) {
  require_enough_layers(names.size(), parts);
  const std::string option = fmt::format("{} {}", options.split, text);
  std::vector<Range> split(1);
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const int64_t begin = layer_named(word, option, names, titles);
    if (begin <= split.back().begin)
      throw BadInput(
          "{}: part {} would have no layers, since the next one begins with layer {} ({}); "
          "list layers in the model's order, without the first",
          option, split.size() - 1, begin, names[static_cast<size_t>(begin)]);
    split.back().end = begin;
    split.push_back({begin, 0});
  }
  split.back().end = static_cast<int64_t>(names.size());
  require_parts(split.size(), parts, option, options);
  return split;
}

namespace {

// The cost of a part, to which layers are added from its last to its first.
struct PartCost {
  double seconds = 0;
  int64_t state = 0;
  int64_t held = 0;    ///< without the inputs of its first layer
  int64_t inputs = 0;  ///< of its first layer
  int64_t working = 0;

  void add(const LayerCost& layer) {
    seconds += layer.seconds;
    state += layer.state;
    held += layer.held;
    inputs = layer.inputs;
    working = std::max(working, layer.working);
  }
  int64_t bytes(int64_t in_flight) const { return state + in_flight * (held + inputs) + working; }
  // The gradients of the inputs of part p that were sent last.
  int64_t sent(size_t p, const PipelineShape& shape) const {
    return p > 0 && shape.micro_batches > 1 ? inputs : 0;
  }
};

PartCost cost_of(const std::vector<LayerCost>& layers, Range part) {
  PartCost cost;
  for (int64_t i = part.end; i-- > part.begin;) cost.add(layers[static_cast<size_t>(i)]);
  return cost;
}

// Blocks of layers as if each were one layer.
std::vector<LayerCost> joined(const std::vector<LayerCost>& layers,
                              const std::vector<Range>& blocks) {
  std::vector<LayerCost> costs;
  for (const Range block : blocks) {
    const PartCost cost = cost_of(layers, block);
    costs.push_back({cost.seconds, cost.state, cost.inputs, cost.held, cost.working});
  }
  return costs;
}

constexpr double kNever = std::numeric_limits<double>::infinity();

// The split whose dearest part has the lowest price, by `price(part, cost)`; nothing if every split
// has a part that costs kNever.
template <typename Price>
std::optional<std::vector<Range>> cheapest_split(const std::vector<LayerCost>& costs, int parts,
                                                 const Price& price) {
  const size_t layers = costs.size();
  require_enough_layers(layers, parts);
  // highest[p][n]: the price of the dearest part if the first n layers are divided into p + 1
  // parts, of which the last begins with layer begins[p][n].
  const auto rows = static_cast<size_t>(parts);
  std::vector<std::vector<double>> highest(rows, std::vector<double>(layers + 1, kNever));
  std::vector<std::vector<size_t>> begins(rows, std::vector<size_t>(layers + 1));
  for (size_t p = 0; p < rows; ++p)
    for (size_t n = p + 1; n <= layers; ++n) {
      PartCost last;
      for (size_t begin = n; begin-- > p;) {
        last.add(costs[begin]);
        if (p == 0 && begin > 0) continue;
        const double before = p == 0 ? 0 : highest[p - 1][begin];
        const double dearest = std::max(before, price(p, last));
        if (dearest > highest[p][n]) continue;
        highest[p][n] = dearest;
        begins[p][n] = begin;
      }
    }
  if (highest.back().back() == kNever) return std::nullopt;
  std::vector<Range> split(rows);
  size_t end = layers;
  for (size_t p = rows; p-- > 0;) {
    split[p] = {static_cast<int64_t>(begins[p][end]), static_cast<int64_t>(end)};
    end = begins[p][end];
  }
  return split;
}

// By part: how many micro-batches are in flight at once.
std::vector<int64_t> in_flight_by_part(const PipelineSchedule& schedule) {
  std::vector<int64_t> now(static_cast<size_t>(schedule.shape.parts())), most = now;
  for (const auto& actions : schedule.actions)
    for (const Action& action : actions) {
      const auto part = static_cast<size_t>(action.part);
      if (action.kind == Action::Kind::forward) most[part] = std::max(most[part], ++now[part]);
      if (action.kind == Action::Kind::backward) --now[part];
    }
  return most;
}

}  // namespace

std::vector<Range> balanced_split(const std::vector<double>& costs, int parts) {
  std::vector<LayerCost> layers;
  for (const double cost : costs) layers.push_back({.seconds = cost});
  return *cheapest_split(layers, parts, [](size_t, const PartCost& part) { return part.seconds; });
}

std::vector<int64_t> bytes_of_stages(const std::vector<LayerCost>& layers,
                                     const std::vector<Range>& split,
                                     const PipelineSchedule& schedule) {
  std::vector<PartCost> parts;
  for (const Range part : split) parts.push_back(cost_of(layers, part));
  std::vector<int64_t> bytes;
  for (size_t stage = 0; stage < schedule.actions.size(); ++stage) {
    int64_t always = 0, working = 0, held = 0, most_held = 0;
    for (size_t p = stage; p < parts.size(); p += schedule.actions.size()) {
      always += parts[p].state + parts[p].sent(p, schedule.shape);
      working = std::max(working, parts[p].working);
    }
    for (const Action& action : schedule.actions[stage]) {
      const PartCost& part = parts[static_cast<size_t>(action.part)];
      if (action.kind == Action::Kind::forward) held += part.held + part.inputs;
      most_held = std::max(most_held, held);
      if (action.kind == Action::Kind::backward) held -= part.held + part.inputs;
    }
    bytes.push_back(always + most_held + working);
  }
  return bytes;
}

FittedSplit fitted_split(const std::vector<LayerCost>& layers, const PipelineSchedule& schedule,
                         int64_t limit, const std::vector<Range>& blocks) {
  if (!blocks.empty()) {
    require_enough_blocks(blocks, schedule.shape.parts());
    FittedSplit found = fitted_split(joined(layers, blocks), schedule, limit);
    for (Range& part : found.split)
      part = {blocks[static_cast<size_t>(part.begin)].begin,
              blocks[static_cast<size_t>(part.end) - 1].end};
    return found;
  }
  const int parts = schedule.shape.parts();
  const auto fits = [&](const std::vector<Range>& split) {
    return limit == 0 || std::ranges::max(bytes_of_stages(layers, split, schedule)) <= limit;
  };
  const auto balanced =
      cheapest_split(layers, parts, [](size_t, const PartCost& part) { return part.seconds; });
  if (fits(*balanced)) return {*balanced};
  const std::vector<int64_t> in_flight = in_flight_by_part(schedule);
  const int64_t share = limit / schedule.shape.parts_per_stage;
  const auto within = cheapest_split(layers, parts, [&](size_t p, const PartCost& part) {
    return part.bytes(in_flight[p]) + part.sent(p, schedule.shape) <= share ? part.seconds : kNever;
  });
  if (within) return {*within};
  const auto smallest = cheapest_split(layers, parts, [&](size_t p, const PartCost& part) {
    return static_cast<double>(part.bytes(in_flight[p]) + part.sent(p, schedule.shape));
  });
  return {*smallest, fits(*smallest)};
}

std::optional<int> stages_that_fit(const std::vector<LayerCost>& layers,
                                   const PipelineScheduleRow& row, PipelineShape shape,
                                   int64_t limit, const std::vector<Range>& blocks) {
  const size_t most_parts = blocks.empty() ? layers.size() : blocks.size();
  const auto most = static_cast<int>(most_parts) / shape.parts_per_stage;
  for (shape.stages = 1; shape.stages <= most; ++shape.stages) {
    try {
      if (fitted_split(layers, make_schedule(row, shape), limit, blocks).fits) return shape.stages;
    } catch (const BadInput&) {  // a number of stages that the schedule cannot have
    }
  }
  return std::nullopt;
}

std::string to_text(const std::vector<Range>& split) {
  std::vector<int64_t> begins;
  for (size_t i = 1; i < split.size(); ++i) begins.push_back(split[i].begin);
  return fmt::format("{}", fmt::join(begins, ","));
}

}  // namespace lockstep::pipeline
