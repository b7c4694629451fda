#include "run/outcome.h"

namespace lockstep::run {

std::optional<Outcome> outcome_of(const std::filesystem::path& run) {
  if (!std::filesystem::exists(run / "events.jsonl")) return std::nullopt;
  const std::vector<Json> events = read_events(run / "events.jsonl");
  const std::string last = events.empty() ? "" : events.back().value("event", "");
  if (last == "end") return Outcome{Outcome::Kind::ended, events.back()};
  if (last == "stopped") return Outcome{Outcome::Kind::stopped, events.back()};
  return std::nullopt;
}

}  // namespace lockstep::run
