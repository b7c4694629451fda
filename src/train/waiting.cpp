#include "train/waiting.h"

#include <algorithm>

namespace lockstep::train {

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
