#include "collective/explain.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/atomic_file.h"
#include "base/nearest.h"
#include "base/units.h"
#include "cli/command.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

using collective::Algorithm;
using collective::Cost;
using collective::Network;
using collective::Plan;

constexpr int64_t kElementBytes = 4;

struct ExplainFlags {
  std::string operation;
  int world = 4;
  std::string bytes = "25MiB";
  double latency_us = 50;
  double gigabits = 1;
  std::optional<std::string> algorithm;
  std::optional<std::string> svg;
  bool json = false;
};

std::string readable_time(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

void print_row(const std::string& name, const Cost& cost, bool json, int64_t bytes, int world) {
  const Algorithm algorithm = collective::parse_algorithm(name);
  if (json) {
    const nlohmann::ordered_json row = {{"op", "all_reduce"},
                                        {"algorithm", name},
                                        {"workers", world},
                                        {"bytes", bytes},
                                        {"rounds", cost.rounds},
                                        {"messages", cost.messages},
                                        {"bytes_sent_most", cost.bytes_most},
                                        {"time_us", cost.seconds * 1e6},
                                        {"canonical", collective::is_canonical(algorithm)}};
    fmt::print("{}\n", row.dump());
  } else {
    fmt::print("{:<17} {:>6} {:>11} {:>12} {:>11}   {}\n", name, cost.rounds,
               format_count(cost.messages), format_bytes(cost.bytes_most),
               readable_time(cost.seconds), collective::formula(algorithm));
  }
}

Plan plan_of(const std::string& name, const ExplainFlags& flags) {
  const int64_t count = parse_bytes(flags.bytes) / kElementBytes;
  return collective::all_reduce(collective::parse_algorithm(name), flags.world, count);
}

void check(const ExplainFlags& flags) {
  const std::vector<std::string> operations = {"all_reduce"};
  if (flags.operation != operations.front())
    throw BadInput("explain {}: no such operation{}; there is: all_reduce", flags.operation,
                   did_you_mean(flags.operation, operations));
  if (flags.world < 1 || flags.world > 4096)
    throw BadInput("-n {}: expected 1 to 4096 workers", flags.world);
  if (!(flags.latency_us >= 0) || !(flags.gigabits > 0))
    throw BadInput("--latency {} --bandwidth {}: expected at least 0 us and more than 0 Gbit/s",
                   flags.latency_us, flags.gigabits);
  parse_bytes(flags.bytes);
  if (flags.algorithm) collective::parse_algorithm(*flags.algorithm);
  if (flags.svg && !flags.algorithm)
    throw BadInput("--svg {}: say what to draw with --algorithm", *flags.svg);
}

int explain(const ExplainFlags& flags) {
  check(flags);
  const Network network{flags.latency_us * 1e-6, flags.gigabits * 1e9 / 8};
  const auto names =
      flags.algorithm ? std::vector{*flags.algorithm} : collective::algorithm_names();
  const int64_t bytes = parse_bytes(flags.bytes);
  if (!flags.json)
    fmt::print(
        "all_reduce of {} on {} workers; {} us latency, {} Gbit/s both ways\n\n"
        "{:<17} {:>6} {:>11} {:>12} {:>11}   {}\n",
        format_bytes(bytes), flags.world, flags.latency_us, flags.gigabits, "algorithm", "rounds",
        "messages", "sent at most", "time", "formula");
  for (const std::string& name : names)
    print_row(name, cost_of(plan_of(name, flags), kElementBytes, network), flags.json, bytes,
              flags.world);
  if (!flags.algorithm || flags.json) return 0;
  const Plan plan = plan_of(*flags.algorithm, flags);
  if (!flags.svg) {
    fmt::print("\n{}", list_rounds(plan));
    return 0;
  }
  write_file_atomically(*flags.svg,
                        draw_rounds(plan, fmt::format("{} on {} workers", names[0], flags.world)));
  fmt::print("\nits rounds are drawn in {}\n", *flags.svg);
  return 0;
}

}  // namespace

Command add_explain(CLI::App& parent) {
  auto flags = std::make_shared<ExplainFlags>();
  CLI::App* app = parent.add_subcommand("explain", "Show how a collective works and what it costs");
  app->add_option("OPERATION", flags->operation, "all_reduce")->required()->type_name("");
  app->add_option("-n,--workers", flags->world, "how many take part (default 4)")->type_name("N");
  app->add_option("--bytes", flags->bytes, "size of the bucket (default 25MiB)")->type_name("SIZE");
  app->add_option("--latency", flags->latency_us, "of a message, in microseconds (default 50)")
      ->type_name("US");
  app->add_option("--bandwidth", flags->gigabits, "of a link, in Gbit/s (default 1)")
      ->type_name("GBIT");
  app->add_option("--algorithm", flags->algorithm, "one of them, with its rounds")
      ->type_name("NAME");
  app->add_option("--svg", flags->svg, "draw the rounds into this file")->type_name("FILE");
  app->add_flag("--json", flags->json, "one JSON object a line");
  app->footer(
      "Times are of a model: rounds that begin together, and links that carry both directions.\n"
      "Examples:\n"
      "  lockstep explain all_reduce -n 8\n"
      "  lockstep explain all_reduce -n 4 --bytes 4KiB --latency 20 --bandwidth 10\n"
      "  lockstep explain all_reduce -n 4 --algorithm ring --svg ring.svg");
  return {app, [flags] { return explain(*flags); }};
}

}  // namespace lockstep::cli
