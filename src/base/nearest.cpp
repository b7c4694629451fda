#include "base/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

// Edits (insert, delete, replace a letter, swap two neighbours) that turn `a` into `b`, one row of
// the usual table after the other.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> two_before, before, row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    two_before = std::exchange(before, row);
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = before[j] + (a[i] == b[j] ? 0 : 1);
      row[j + 1] = std::min({row[j] + 1, before[j + 1] + 1, replaced});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j])
        row[j + 1] = std::min(row[j + 1], two_before[j - 1] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string* best = nullptr;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best == nullptr ? "" : fmt::format(" (did you mean '{}'?)", *best);
}

}  // namespace lockstep
