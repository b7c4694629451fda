#include "cli/train_result.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "base/units.h"
#include "job/training_job.h"
#include "observe/progress.h"

namespace lockstep::cli {
namespace {

using run::Json;

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

void print_line(const std::string& name, const std::string& value) {
  fmt::print("{:<14} {}\n", name, value);
}

void print_figures(const Json& end) {
  for (const auto& [name, value] :
       observe::describe_figures(end, end.value("metrics", Json::object()), "test", 2))
    print_line(name, value);
}

void print_summary(const Json& end) {
  print_line("test loss", fmt::format("{:.4f}", end["test_loss"].get<double>()));
  print_figures(end);
  print_line("speed",
             fmt::format("{} samples/s", format_count(end["samples_per_second"].get<int64_t>())));
  print_line("time", fmt::format("{}: {}", format_duration(end["seconds"]), shares(end)));
  if (end.contains("stragglers")) print_line("waiting", end["stragglers"].get<std::string>());
  print_line("model sha256", end["model_sha256"].get<std::string>());
  print_line("files", end["out"].get<std::string>());
}

}  // namespace

void show_result(const run::Outcome& outcome, ResultFormat format,
                 const std::vector<std::string>& plugins) {
  const bool ended = outcome.kind == run::Outcome::Kind::ended;
  if (format == ResultFormat::json)
    fmt::print("{}\n", outcome.event.dump());
  else if (ended)
    print_summary(outcome.event);
  if (!ended) job::tell_how_to_resume(outcome.event["out"].get<std::string>(), plugins);
}

}  // namespace lockstep::cli
