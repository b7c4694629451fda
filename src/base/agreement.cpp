#include "base/agreement.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/error.h"

namespace lockstep {
namespace {

using nlohmann::json;

std::optional<Facts> parse(const std::string& text) {
  try {
    return json::parse(text).get<Facts>();
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

void compare(const Facts& ours, const Facts& theirs, size_t rank) {
  const auto difference = first_difference(ours, theirs);
  if (!difference) return;
  const auto& [name, value] = difference->ours;
  const auto& [their_name, their_value] = difference->theirs;
  if (name != their_name)
    throw Mismatch("ranks disagree: rank 0 has {}, but rank {} has {}", name, rank, their_name);
  throw Mismatch("ranks disagree on {}: rank 0 has {}, rank {} has {}", name, value, rank,
                 their_value);
}

}  // namespace

std::optional<Difference> first_difference(const Facts& ours, const Facts& theirs) {
  const Facts::value_type nothing = {"nothing", "nothing"};
  for (size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    Difference pair = {i < ours.size() ? ours[i] : nothing,
                       i < theirs.size() ? theirs[i] : nothing};
    if (pair.ours != pair.theirs) return pair;
  }
  return std::nullopt;
}

void agree(const Facts& facts, const GatherTexts& gather) {
  // Values may contain any bytes: a path, a text from the user.
  const auto replace = json::error_handler_t::replace;
  const std::vector<std::string> texts = gather(json(facts).dump(-1, ' ', false, replace));
  const std::optional<Facts> first = parse(texts.front());
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const std::optional<Facts> theirs = parse(texts[rank]);
    if (!first || !theirs)
      throw Mismatch(
          "rank 0 and rank {} do different things; start all workers with the same command and the "
          "same version of Lockstep",
          rank);
    compare(*first, *theirs, rank);
  }
}

}  // namespace lockstep
