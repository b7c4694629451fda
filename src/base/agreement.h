#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// Values that must be equal on all workers of a job, as (name, this worker's value), the most
/// important first: only the first difference is reported.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// Two facts that differ; ("nothing", "nothing") if one list is shorter.
struct Difference {
  Facts::value_type ours;
  Facts::value_type theirs;
};
/// The first difference, if any.
std::optional<Difference> first_difference(const Facts& ours, const Facts& theirs);

/// Collective: every rank passes a text and gets the texts of all ranks.
using GatherTexts = std::function<std::vector<std::string>(const std::string& text)>;

/// Collective: throws Mismatch on every rank if a rank's facts differ from rank 0's, with the first
/// difference and both values.
///
///     agree({{"the transport", "tcp"}, {"the batch", "128"}}, gather);
void agree(const Facts& facts, const GatherTexts& gather);

}  // namespace lockstep
