#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// What all workers of a job must hold alike, as (what it is, this worker's value), the weightiest
/// first. Only the first difference is told.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// A fact of one's that is not the other's; ("nothing", "nothing") where one's have ended.
struct Difference {
  Facts::value_type ours;
  Facts::value_type theirs;
};
/// The first one.
std::optional<Difference> first_difference(const Facts& ours, const Facts& theirs);

/// Every rank gives a text and gets everyone's, by rank.
using GatherTexts = std::function<std::vector<std::string>(const std::string& text)>;

/// Collective: throws Mismatch on every rank, with the first fact on which a rank and rank 0 differ
/// and both values.
///
///     agree({{"the transport", "tcp"}, {"the batch", "128"}}, gather);
void agree(const Facts& facts, const GatherTexts& gather);

}  // namespace lockstep
