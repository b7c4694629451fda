#include "run/comparison.h"

#include <fmt/format.h>

#include <map>

#include "lockstep/error.h"
#include "recipe/recipe.h"
#include "run/events.h"

namespace lockstep::run {
namespace {

// Fields of `start` besides the recipe that can affect the result.
constexpr const char* kFacts[] = {"data_sha256", "weights_sha256", "plugins_sha256", "torch",
                                  "lockstep",    "processor",      "instructions",   "departures"};

// What is compared of a run. Of steps that were repeated after a resume, the last one counts.
struct RunRecord {
  Recipe recipe;
  std::map<std::string, std::string> facts;
  std::map<int64_t, std::map<std::string, std::string>> digests;
  std::map<int64_t, double> losses;
  std::string model_sha256;  ///< empty until the run has ended
};

RunRecord read_record(const std::filesystem::path& run) {
  if (!std::filesystem::exists(run / "recipe.toml"))
    throw BadInput("{}: contains no run (no recipe.toml)", run.string());
  RunRecord record{.recipe = read_recipe(run / "recipe.toml")};
  for (const Json& event : read_events(run / "events.jsonl")) {
    const std::string kind = event.value("event", "");
    if (kind == "start") {
      for (const char* fact : kFacts)
        if (event.contains(fact)) record.facts[fact] = event[fact].get<std::string>();
    } else if (kind == "digest") {
      record.digests[event.at("step")] =
          event.at("tensors").get<std::map<std::string, std::string>>();
    } else if (kind == "step") {
      record.losses[event.at("step")] = event.at("loss");
    } else if (kind == "end") {
      record.model_sha256 = event.at("model_sha256");
    }
  }
  return record;
}

std::vector<std::string> causes_of(const RunRecord& a, const RunRecord& b) {
  std::vector<std::string> causes;
  for (const ChangedKey& of : changed_keys(result_values(b.recipe), result_values(a.recipe)))
    causes.push_back(fmt::format("{}: {} in A, {} in B", of.key, of.before, of.now));
  for (const char* fact : kFacts) {
    const auto of = [&](const RunRecord& record) {
      const auto found = record.facts.find(fact);
      return found == record.facts.end() ? std::string("not recorded") : found->second;
    };
    if (of(a) != of(b)) causes.push_back(fmt::format("{}: {} in A, {} in B", fact, of(a), of(b)));
  }
  return causes;
}

std::vector<std::string> other_tensors(const std::map<std::string, std::string>& a,
                                       const std::map<std::string, std::string>& b) {
  std::vector<std::string> names;
  for (const auto& [name, digest] : a) {
    const auto found = b.find(name);
    if (found == b.end() || found->second != digest) names.push_back(name);
  }
  for (const auto& [name, digest] : b)
    if (!a.contains(name)) names.push_back(name);
  return names;
}

void find_parting(const RunRecord& a, const RunRecord& b, Comparison& comparison) {
  std::optional<int64_t> last_equal;
  for (const auto& [step, digests] : a.digests) {
    const auto found = b.digests.find(step);
    if (found == b.digests.end()) continue;
    ++comparison.digests_compared;
    std::vector<std::string> tensors = other_tensors(digests, found->second);
    if (!tensors.empty()) {
      comparison.parting = {last_equal, step, std::move(tensors)};
      return;
    }
    last_equal = step;
  }
}

std::optional<int64_t> first_other_loss(const RunRecord& a, const RunRecord& b) {
  for (const auto& [step, loss] : a.losses) {
    const auto found = b.losses.find(step);
    if (found != b.losses.end() && found->second != loss) return step;
  }
  return std::nullopt;
}

}  // namespace

Comparison compare_runs(const std::filesystem::path& a, const std::filesystem::path& b) {
  const RunRecord first = read_record(a), second = read_record(b);
  Comparison comparison;
  comparison.causes = causes_of(first, second);
  find_parting(first, second, comparison);
  comparison.first_other_loss = first_other_loss(first, second);
  if (!first.model_sha256.empty() && !second.model_sha256.empty())
    comparison.result = first.model_sha256 == second.model_sha256 ? Comparison::Result::same
                                                                  : Comparison::Result::other;
  return comparison;
}

}  // namespace lockstep::run
