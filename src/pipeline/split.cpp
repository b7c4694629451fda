#include "pipeline/split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>

#include "base/nearest.h"
#include "lockstep/error.h"

namespace lockstep::pipeline {
namespace {

std::string list_of(const std::vector<std::string>& names) {
  std::vector<std::string> numbered;
  for (size_t i = 0; i < names.size(); ++i) numbered.push_back(fmt::format("{} {}", i, names[i]));
  return fmt::format("{}", fmt::join(numbered, ", "));
}

int64_t layer_named(const std::string& word, const std::string& text,
                    const std::vector<std::string>& names) {
  if (const auto found = std::ranges::find(names, word); found != names.end())
    return found - names.begin();
  int64_t number = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool is_number = error == std::errc() && end == word.data() + word.size();
  if (!is_number || number < 0 || number >= static_cast<int64_t>(names.size()))
    throw BadInput("--split {}: '{}' is no layer of the model{}; there are: {}", text, word,
                   is_number ? "" : did_you_mean(word, names), list_of(names));
  return number;
}

}  // namespace

void require_enough_layers(size_t layers, int parts) {
  if (static_cast<size_t>(parts) > layers)
    throw BadInput("a model of {} layers cannot be divided into {} parts: use at most {} stages",
                   layers, parts, layers);
}

std::vector<Range> parse_split(const std::string& text, const std::vector<std::string>& names,
                               int parts) {
  require_enough_layers(names.size(), parts);
  std::vector<Range> split(1);
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const int64_t begin = layer_named(word, text, names);
    if (begin <= split.back().begin)
      throw BadInput(
          "--split {}: part {} would have no layers, since the next one begins with layer {} ({}); "
          "list layers in the model's order, without the first",
          text, split.size() - 1, begin, names[static_cast<size_t>(begin)]);
    split.back().end = begin;
    split.push_back({begin, 0});
  }
  split.back().end = static_cast<int64_t>(names.size());
  if (static_cast<int>(split.size()) != parts)
    throw BadInput("--split {}: lists {}, which makes {} parts; expected {} for {} parts", text,
                   split.size() - 1, split.size(), parts - 1, parts);
  return split;
}

std::vector<Range> balanced_split(const std::vector<double>& costs, int parts) {
  const size_t layers = costs.size();
  require_enough_layers(layers, parts);
  // highest[p][n]: the highest cost of a part if the first n layers are divided into p + 1 parts,
  // of which the last begins with layer begins[p][n].
  const auto rows = static_cast<size_t>(parts);
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> highest(rows, std::vector<double>(layers + 1, kNever));
  std::vector<std::vector<size_t>> begins(rows, std::vector<size_t>(layers + 1));
  double sum = 0;
  for (size_t n = 1; n <= layers; ++n) highest[0][n] = sum += costs[n - 1];
  for (size_t p = 1; p < rows; ++p)
    for (size_t n = p + 1; n <= layers; ++n) {
      double last = 0;
      for (size_t begin = n; begin-- > p;) {
        last += costs[begin];
        const double cost = std::max(highest[p - 1][begin], last);
        if (cost > highest[p][n]) continue;
        highest[p][n] = cost;
        begins[p][n] = begin;
      }
    }
  std::vector<Range> split(rows);
  size_t end = layers;
  for (size_t p = rows; p-- > 0;) {
    const size_t begin = p == 0 ? 0 : begins[p][end];
    split[p] = {static_cast<int64_t>(begin), static_cast<int64_t>(end)};
    end = begin;
  }
  return split;
}

std::string to_text(const std::vector<Range>& split) {
  std::vector<int64_t> begins;
  for (size_t i = 1; i < split.size(); ++i) begins.push_back(split[i].begin);
  return fmt::format("{}", fmt::join(begins, ","));
}

}  // namespace lockstep::pipeline
