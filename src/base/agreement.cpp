#include "base/agreement.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

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

// The first of `theirs` that is not `ours`; one of the two may have ended before.
void compare(const Facts& ours, const Facts& theirs, size_t rank) {
  const Facts::value_type nothing = {"nothing", "nothing"};
  for (size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    const auto& [name, value] = i < ours.size() ? ours[i] : nothing;
    const auto& [their_name, their_value] = i < theirs.size() ? theirs[i] : nothing;
    if (name != their_name)
      throw Mismatch("ranks disagree: rank 0 has {}, where rank {} has {}", name, rank, their_name);
    if (value != their_value)
      throw Mismatch("ranks disagree on {}: rank 0 has {}, rank {} has {}", name, value, rank,
                     their_value);
  }
}

}  // namespace

void agree(const Facts& facts, const GatherTexts& gather) {
  // Values may be any bytes: a path, a text of the user's.
  const auto replace = json::error_handler_t::replace;
  const std::vector<std::string> texts = gather(json(facts).dump(-1, ' ', false, replace));
  const std::optional<Facts> first = parse(texts.front());
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const std::optional<Facts> theirs = parse(texts[rank]);
    if (!first || !theirs)
      throw Mismatch(
          "rank 0 and rank {} do different things; start all workers with one command and one "
          "version of Lockstep",
          rank);
    compare(*first, *theirs, rank);
  }
}

}  // namespace lockstep
