#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/atomic_file.h"
#include "base/shipped.h"
#include "base/units.h"
#include "cli/explain.h"
#include "collective/plan/all_reduce.h"
#include "collective/plan/explain.h"
#include "lockstep/error.h"
#include "sim/simulate.h"

namespace lockstep::cli {
namespace {

using collective::Algorithm;
using collective::Plan;
using sim::Network;
using sim::Timing;
using sim::Topology;

constexpr int64_t kElementBytes = 4;
constexpr int64_t kMostBytes = int64_t{1} << 40;  // sums over all ranks stay below 2^63
constexpr int kMostDrawn = 64;                    // workers in a picture
constexpr int kMostListed = 100;                  // messages

struct AllReduceFlags {
  int world = 4;
  std::string bytes = "25MiB";
  double latency_us = 50;
  double gigabits = 1;
  std::string topology = "switch";
  std::optional<int> workers_per_host;
  double host_latency_us = 1;
  double host_gigabits = 40;
  double overhead_us = 0;
  std::optional<double> reduce_gigabytes;
  std::string eager = "0";
  bool half_duplex = false;
  std::optional<std::string> algorithm;
  std::optional<std::string> svg;
  bool json = false;
};

std::string readable_time(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

// The share of the time that the busiest link is busy.
double busiest(const Timing& timing) {
  if (timing.seconds == 0) return 0;
  return *std::max_element(timing.link_busy.begin(), timing.link_busy.end()) / timing.seconds;
}

void print_row(Algorithm algorithm, const Timing& timing) {
  fmt::print("{:<17} {:>6} {:>11} {:>12} {:>11} {:>5.0f} %   {}\n", algorithm.name(), timing.rounds,
             format_count(timing.messages), format_bytes(timing.bytes_most),
             readable_time(timing.seconds), 100 * busiest(timing), algorithm->cost);
}

void print_json(Algorithm algorithm, const Timing& timing, const AllReduceFlags& flags) {
  const nlohmann::ordered_json row = {{"op", "all_reduce"},
                                      {"algorithm", algorithm.name()},
                                      {"workers", flags.world},
                                      {"bytes", parse_bytes(flags.bytes)},
                                      {"topology", flags.topology},
                                      {"rounds", timing.rounds},
                                      {"messages", timing.messages},
                                      {"bytes_sent_most", timing.bytes_most},
                                      {"bytes_sent", timing.bytes_total},
                                      {"time_us", timing.seconds * 1e6},
                                      {"busiest_link", busiest(timing)},
                                      {"formula", algorithm->cost},
                                      {"canonical", algorithm.is_canonical()}};
  fmt::print("{}\n", row.dump());
}

Plan plan_of(Algorithm algorithm, const AllReduceFlags& flags) {
  const int64_t count = parse_bytes(flags.bytes) / kElementBytes;
  return collective::all_reduce(algorithm, flags.world, count);
}

Network network_of(const AllReduceFlags& flags) {
  Network network{.topology = sim::parse_topology(flags.topology),
                  .duplex = flags.half_duplex ? sim::Duplex::half : sim::Duplex::full,
                  .latency = flags.latency_us * 1e-6,
                  .bytes_per_second = flags.gigabits * 1e9 / 8,
                  .overhead = flags.overhead_us * 1e-6,
                  .eager_bytes = parse_bytes(flags.eager),
                  .workers_per_host = flags.workers_per_host.value_or(1),
                  .host_latency = flags.host_latency_us * 1e-6,
                  .host_bytes_per_second = flags.host_gigabits * 1e9 / 8};
  if (flags.reduce_gigabytes) network.reduce_bytes_per_second = *flags.reduce_gigabytes * 1e9;
  return network;
}

void check_between(const char* flag, double value, double lowest, double highest,
                   const char* unit) {
  if (!(value >= lowest && value <= highest))
    throw BadInput("{} {}: expected {:g} to {:g} {}", flag, value, lowest, highest, unit);
}

void check_network(const AllReduceFlags& flags) {
  constexpr double kMostMicroseconds = 1e9;  // a thousand seconds
  constexpr double kLeastSpeed = 1e-6;       // of GB/s or Gbit/s: a kilobit
  constexpr double kMostSpeed = 1e6;
  check_between("--latency", flags.latency_us, 0, kMostMicroseconds, "us");
  check_between("--host-latency", flags.host_latency_us, 0, kMostMicroseconds, "us");
  check_between("--overhead", flags.overhead_us, 0, kMostMicroseconds, "us");
  check_between("--bandwidth", flags.gigabits, kLeastSpeed, kMostSpeed, "Gbit/s");
  check_between("--host-bandwidth", flags.host_gigabits, kLeastSpeed, kMostSpeed, "Gbit/s");
  if (flags.reduce_gigabytes)
    check_between("--reduce-speed", *flags.reduce_gigabytes, kLeastSpeed, kMostSpeed, "GB/s");
  const bool hosts = sim::parse_topology(flags.topology) == Topology::two_level;
  if (hosts && !flags.workers_per_host)
    throw BadInput(
        "--topology two_level: give the number of workers of a host, --workers-per-host");
  if (!hosts && flags.workers_per_host)
    throw BadInput("--workers-per-host {}: a {} has no hosts; expected --topology two_level",
                   *flags.workers_per_host, flags.topology);
  if (flags.workers_per_host && *flags.workers_per_host < 1)
    throw BadInput("--workers-per-host {}: expected at least 1", *flags.workers_per_host);
  sim::check(network_of(flags));
}

void check(const AllReduceFlags& flags) {
  if (flags.world < 1 || flags.world > 4096)
    throw BadInput("-n {}: expected 1 to 4096 workers", flags.world);
  if (parse_bytes(flags.bytes) > kMostBytes)
    throw BadInput("--bytes {}: expected at most {}", flags.bytes, format_bytes(kMostBytes));
  check_network(flags);
  if (flags.algorithm && collective::parse_algorithm(*flags.algorithm).is_engine())
    throw BadInput("--algorithm {}: an MPI's own all-reduce has no plan to explain",
                   *flags.algorithm);
  if (flags.svg && !flags.algorithm)
    throw BadInput("--svg {}: choose what to draw with --algorithm", *flags.svg);
  if (flags.svg && flags.world > kMostDrawn)
    throw BadInput("--svg {}: -n {}: expected at most {} workers in a picture", *flags.svg,
                   flags.world, kMostDrawn);
}

std::string describe(const AllReduceFlags& flags) {
  std::string text = fmt::format("all_reduce of {} on {} workers; {}, {} us latency, {} Gbit/s {}",
                                 format_bytes(parse_bytes(flags.bytes)), flags.world,
                                 flags.topology, flags.latency_us, flags.gigabits,
                                 flags.half_duplex ? "one way at a time" : "both ways");
  if (flags.workers_per_host)
    text += fmt::format("\n{} workers a host, {} us latency and {} Gbit/s inside it",
                        *flags.workers_per_host, flags.host_latency_us, flags.host_gigabits);
  if (flags.overhead_us > 0)
    text +=
        fmt::format("\n{} us of processor time for each message, at both ends", flags.overhead_us);
  else
    text +=
        "\nmessages take no processor time: see --overhead; lockstep bench --verbose measures it";
  if (flags.reduce_gigabytes) text += fmt::format("\nfolds at {} GB/s", *flags.reduce_gigabytes);
  if (const int64_t eager = parse_bytes(flags.eager); eager > 0)
    text += fmt::format("\nmessages up to {} do not wait for their receiver", format_bytes(eager));
  return text;
}

void show_rounds(Algorithm algorithm, int64_t messages, const AllReduceFlags& flags) {
  const Plan plan = plan_of(algorithm, flags);
  fmt::print("\n{}: {}; {} rounds, {}\n\n{}", algorithm.name(), algorithm->about, algorithm->rounds,
             algorithm.is_canonical() ? "adds in canonical order" : "adds in an order of its own",
             sketch_rounds(plan));
  if (flags.svg) {
    write_file_atomically(
        *flags.svg,
        draw_rounds(plan, fmt::format("{} on {} workers", algorithm.name(), flags.world)));
    fmt::print("\nits rounds are drawn in {}\n", *flags.svg);
  } else if (messages <= kMostListed) {
    fmt::print("\n{}", list_rounds(plan));
  } else {
    fmt::print("\n{} messages; up to {} are listed one by one\n", format_count(messages),
               kMostListed);
  }
}

int explain_all_reduce(const AllReduceFlags& flags) {
  check(flags);
  const Network network = network_of(flags);
  const auto shown = flags.algorithm ? std::vector{collective::parse_algorithm(*flags.algorithm)}
                                     : collective::planned_algorithms();
  if (!flags.json)
    fmt::print("{}\n\n{:<17} {:>6} {:>11} {:>12} {:>11} {:>7}   {}\n", describe(flags), "algorithm",
               "rounds", "messages", "most by one", "time", "busiest",
               "formula on a plain switch, powers of two");
  for (const Algorithm algorithm : shown) {
    const Timing timing = simulate(plan_of(algorithm, flags), kElementBytes, network);
    if (flags.json)
      print_json(algorithm, timing, flags);
    else
      print_row(algorithm, timing);
    if (flags.algorithm && !flags.json) show_rounds(algorithm, timing.messages, flags);
  }
  return 0;
}

std::string planned_names() {
  std::vector<std::string> names;
  for (const Algorithm algorithm : collective::planned_algorithms())
    names.push_back(algorithm.name());
  return fmt::format("{}", fmt::join(names, ", "));
}

void add_network_flags(CLI::App& app, AllReduceFlags& flags) {
  app.add_option("--latency", flags.latency_us, "of a message, in microseconds (default 50)")
      ->type_name("US");
  app.add_option("--bandwidth", flags.gigabits, "of a link, in Gbit/s (default 1)")
      ->type_name("GBIT");
  app.add_option("--topology", flags.topology, "switch (default), ring or two_level")
      ->type_name("NAME");
  app.add_option("--workers-per-host", flags.workers_per_host,
                 "workers that share a host's link, with --topology two_level")
      ->type_name("N");
  app.add_option("--host-latency", flags.host_latency_us,
                 "inside a host, in microseconds (default 1)")
      ->type_name("US");
  app.add_option("--host-bandwidth", flags.host_gigabits, "inside a host, in Gbit/s (default 40)")
      ->type_name("GBIT");
  app.add_option("--overhead", flags.overhead_us,
                 "processor time of a message at each end, in microseconds (default 0)")
      ->type_name("US");
  app.add_option("--reduce-speed", flags.reduce_gigabytes,
                 "speed of adding, in GB/s (default: adding takes no time)")
      ->type_name("GB");
  app.add_option("--eager", flags.eager,
                 "messages up to this size do not wait for their receiver (default 0)")
      ->type_name("SIZE");
  app.add_flag("--half-duplex", flags.half_duplex, "links carry one direction at a time");
}

class ExplainAllReduceCommand final : public Command {
 public:
  explicit ExplainAllReduceCommand(CLI::App& parent)
      : Command(parent, "all_reduce", "Show how all-reduce algorithms work and what they cost") {
    app().add_option("-n,--workers", flags_.world, "number of workers (default 4)")->type_name("N");
    app()
        .add_option("--bytes", flags_.bytes, "size of the bucket (default 25MiB)")
        ->type_name("SIZE");
    add_network_flags(app(), flags_);
    app()
        .add_option("--algorithm", flags_.algorithm,
                    fmt::format("show the rounds of one algorithm: {}", planned_names()))
        ->type_name("NAME");
    app().add_option("--svg", flags_.svg, "draw the rounds into this file")->type_name("FILE");
    app().add_flag("--json", flags_.json, "print one JSON object per line");
    app().footer(fmt::format(
        "Times are of a simulated network; the model is described in\n"
        "{}.\n"
        "'most by one' is the number of bytes sent by the worker that sends most; 'busiest' is "
        "the\n"
        "share of the time in which the busiest link is in use.\n"
        "Examples:\n"
        "  lockstep explain all_reduce -n 8\n"
        "  lockstep explain all_reduce -n 4 --bytes 4KiB --latency 20 --bandwidth 10\n"
        "  lockstep explain all_reduce -n 64 --topology two_level --workers-per-host 8\n"
        "  lockstep explain all_reduce -n 4 --algorithm ring --svg ring.svg",
        shipped("docs/algorithms.md")));
  }

  int run() override { return explain_all_reduce(flags_); }

 private:
  AllReduceFlags flags_;
};

}  // namespace

std::unique_ptr<Command> add_explain_all_reduce(CLI::App& parent) {
  return std::make_unique<ExplainAllReduceCommand>(parent);
}

}  // namespace lockstep::cli
