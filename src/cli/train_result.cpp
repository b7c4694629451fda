#include "cli/train_result.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/tell.h"
#include "job/training_job.h"
#include "lockstep/device_memory.h"
#include "observe/progress.h"

namespace lockstep::cli {
namespace {

using run::Json;

// "forward 41.2 %, backward 40.0 %, evaluation 12.9 %, other 5.9 %" of the total time.
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

// "7 of 10 (validation accuracy 91.20 %)"; empty if there was only one.
std::string describe_best(const Json& end) {
  const Json best = end.value("best", Json());
  if (best.is_null() || end["epochs"].get<double>() <= 1) return {};
  const std::string figure = best["figure"];  // "validation_accuracy"
  const size_t underscore = figure.find('_');
  const std::string split = figure.substr(0, underscore);
  const std::string name = figure.substr(underscore + 1);
  Json metrics = {{"loss", "number"}};
  metrics.update(end.value("metrics", Json::object()));
  const auto described =
      observe::describe_figures({{figure, best["value"]}}, {{name, metrics[name]}}, split, 2);
  return fmt::format("{:g} of {:g} ({} {})", best["epoch"].get<double>(),
                     end["epochs"].get<double>(), described.at(0).first, described.at(0).second);
}

// "41.0 MiB of 64.0 MiB on cpu at the peak: parameters 136.0 KiB, activations 40.2 MiB".
std::string describe_memory(const Json& memory) {
  const auto bytes = [&](const std::string& key) { return memory[key].get<int64_t>(); };
  std::vector<std::string> uses;
  for (const std::string_view use : kMemoryUses)
    if (const int64_t used = bytes(std::string(use)); used > 0)
      uses.push_back(fmt::format("{} {}", use, format_bytes(used)));
  const int64_t limit = bytes("limit");
  return fmt::format("{}{} on {} at the peak: {}", format_bytes(bytes("peak")),
                     limit > 0 ? fmt::format(" of {}", format_bytes(limit)) : "",
                     memory["device"].get<std::string>(), fmt::join(uses, ", "));
}

// "stage 0 12.0 MiB; stage 1 8.0 MiB"; of several pipelines, "rank 2, stage 0 12.0 MiB; ...".
std::string describe_stages(const Json& by_stage) {
  const bool has_pipelines = std::ranges::count_if(by_stage, [&](const Json& figures) {
                               return figures["stages"] == by_stage.front()["stages"];
                             }) > 1;
  std::vector<std::string> peaks;
  for (const Json& figures : by_stage)
    peaks.push_back(fmt::format(
        "{}stage {} {}", has_pipelines ? fmt::format("rank {}, ", figures["rank"].get<int>()) : "",
        fmt::join(figures["stages"].get<std::vector<int>>(), ", "),
        format_bytes(figures["peak"].get<int64_t>())));
  return fmt::format("{}", fmt::join(peaks, "; "));
}

// "virtual:0 12.0 MiB, virtual:1 8.0 MiB".
std::string describe_devices(const Json& by_device) {
  std::vector<std::string> peaks;
  for (const Json& figures : by_device)
    peaks.push_back(fmt::format("{} {}", figures["device"].get<std::string>(),
                                format_bytes(figures["peak"].get<int64_t>())));
  return fmt::format("{}", fmt::join(peaks, ", "));
}

// "replicated 10.3 MiB, scattered 1.2 MiB, gathered 0 B, reduced 10.3 MiB".
std::string describe_copies(const Json& bytes) {
  std::vector<std::string> parts;
  for (const auto& [kind, count] : bytes.items())
    parts.push_back(fmt::format("{} {}", kind, format_bytes(count.get<int64_t>())));
  return fmt::format("{}", fmt::join(parts, ", "));
}

using SummaryLine = std::pair<std::string, std::string>;

std::vector<SummaryLine> summary(const Json& end) {
  std::vector<SummaryLine> lines;
  for (const std::string split : {"validation", "test"}) {
    if (!end.contains(split + "_loss")) continue;
    lines.emplace_back(split + " loss", format_loss(end[split + "_loss"]));
    for (auto& figure :
         observe::describe_figures(end, end.value("metrics", Json::object()), split, 2))
      lines.emplace_back(std::move(figure));
  }
  if (const std::string best = describe_best(end); !best.empty())
    lines.emplace_back("best epoch", best);
  if (end.value("ended_early", false))
    lines.emplace_back("ended early", "no better epoch came (train.patience)");
  lines.emplace_back(
      "speed", fmt::format("{} samples/s", format_count(end["samples_per_second"].get<int64_t>())));
  lines.emplace_back("time", fmt::format("{}: {}", format_duration(end["seconds"]), shares(end)));
  if (const Json memory = end.value("memory", Json()); !memory.is_null())
    lines.emplace_back("memory", describe_memory(memory));
  if (end.contains("memory_by_stage"))
    lines.emplace_back("peaks", describe_stages(end["memory_by_stage"]));
  if (end.contains("bubble"))
    lines.emplace_back("bubble", fmt::format("stages waited for {:.1f} % of the time",
                                             100 * end["bubble"].get<double>()));
  if (end.contains("bytes_between_devices")) {
    if (end.contains("memory_by_device"))
      lines.emplace_back("peaks", describe_devices(end["memory_by_device"]));
    lines.emplace_back("copied", describe_copies(end["bytes_between_devices"]));
  }
  if (end.contains("stragglers"))
    lines.emplace_back("stragglers", end["stragglers"].get<std::string>());
  lines.emplace_back("model sha256", end["model_sha256"].get<std::string>());
  lines.emplace_back("files", end["out"].get<std::string>());
  return lines;
}

}  // namespace

void show_result(const run::Outcome& outcome, ResultFormat format,
                 const std::string& repeated_flags) {
  const bool ended = outcome.kind == run::Outcome::Kind::ended;
  if (format == ResultFormat::json)
    fmt::print("{}\n", outcome.event.dump());
  else if (ended)
    print_lines(summary(outcome.event));
  if (!ended) job::tell_how_to_resume(outcome.event["out"].get<std::string>(), repeated_flags);
}

}  // namespace lockstep::cli
