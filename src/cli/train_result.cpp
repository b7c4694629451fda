#include "cli/train_result.h"

#include <fmt/format.h>

#include <cstdio>
#include <vector>

#include "base/units.h"
#include "train/failure.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using observe::Json;

// "forward 41.2 %, backward 40.0 %, evaluation 12.9 %, other 5.9 %": of all seconds.
std::string shares(const Json& end) {
  const auto total = end["seconds"].get<double>();
  Json pieces = end["spans"];
  pieces["evaluation"] = end["evaluation_seconds"];
  pieces["checkpoint"] = end["checkpoint_seconds"];
  double other = total;
  for (const auto& [name, seconds] : pieces.items()) other -= seconds.get<double>();
  pieces["other"] = other;
  std::vector<std::string> parts;
  for (const auto& [name, seconds] : pieces.items())
    if (const double share = 100 * seconds.get<double>() / total; share >= 0.05)
      parts.push_back(fmt::format("{} {:.1f} %", name, share));
  return fmt::format("{}", fmt::join(parts, ", "));
}

void print_summary(const Json& end) {
  fmt::print("test accuracy  {:.2f} %\n", 100 * end["test_accuracy"].get<double>());
  fmt::print("speed          {} samples/s\n",
             format_count(end["samples_per_second"].get<int64_t>()));
  fmt::print("time           {}: {}\n", format_duration(end["seconds"]), shares(end));
  if (end.contains("stragglers"))
    fmt::print("waiting        {}\n", end["stragglers"].get<std::string>());
  fmt::print("model sha256   {}\n", end["model_sha256"].get<std::string>());
  fmt::print("files          {}\n", end["out"].get<std::string>());
}

void tell_how_to_go_on(const std::string& out) {
  std::fputs(fmt::format("go on with:  lockstep train --resume --out {}\n", out).c_str(), stderr);
}

}  // namespace

std::optional<Json> last_event(const fs::path& out) {
  if (!fs::exists(out / "events.jsonl")) return std::nullopt;
  const std::vector<Json> events = observe::read_events(out / "events.jsonl");
  return events.empty() ? std::nullopt : std::optional(events.back());
}

std::optional<Json> finished_run(const fs::path& out) {
  const auto last = last_event(out);
  return last && (*last)["event"] == "end" ? last : std::nullopt;
}

void show_result(const Json& last, ResultFormat format) {
  const bool finished = last["event"] == "end";
  if (format == ResultFormat::json)
    fmt::print("{}\n", last.dump());
  else if (finished)
    print_summary(last);
  if (!finished) tell_how_to_go_on(last["out"].get<std::string>());
}

void tell_failure(const std::string& out, const std::string& message) {
  if (!out.empty() && train::record_failure(out, message) == train::Remains::checkpoint)
    tell_how_to_go_on(out);
}

}  // namespace lockstep::cli
