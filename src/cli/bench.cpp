#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/nearest.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/placement_flags.h"
#include "cli/tell.h"
#include "collective/benchmark.h"
#include "launch/connect.h"
#include "launch/group.h"
#include "launch/job.h"
#include "launch/worker_process.h"
#include "lockstep/error.h"
#include "sim/calibrate.h"
#include "sim/predict.h"
#include "sim/simulate.h"
#include "transport/transports.h"

namespace lockstep::cli {
namespace {

using collective::Algorithm;
using collective::Benchmark;
using collective::BenchmarkResult;
using collective::Collective;
using collective::Communicator;

struct BenchFlags {
  std::string operation;
  std::optional<int> workers;
  std::string first = "1KiB";
  std::string last = "64MiB";
  int factor = 4;
  std::string algorithm = "auto";
  std::string transport = "auto";
  std::string type = "f32";
  std::string redop = "sum";
  int batches = 10;
  int streams = 1;
  double silence = 10;
  bool fresh = false;
  bool check = false;
  bool verbose = false;
  bool json = false;
};

// The flags, checked and parsed.
struct BenchTask {
  Collective collective;
  std::vector<std::string> algorithms;  // names, or "auto"
  std::vector<int64_t> sizes;
};

std::vector<std::string> algorithms_of(const BenchFlags& flags, Collective collective) {
  if (collective != Collective::all_reduce) {
    if (flags.algorithm != "auto")
      throw BadInput("--algorithm {}: only all_reduce has several algorithms; {} has one",
                     flags.algorithm, flags.operation);
    return {"auto"};
  }
  if (flags.algorithm == "all") {
    std::vector<std::string> all;
    for (const auto& row : collective::algorithms())
      if (!Algorithm(*row).is_engine() || transport::transports().at(flags.transport).has_engine)
        all.push_back(row->name);
    return all;
  }
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= flags.algorithm.size();) {
    const size_t end = std::min(flags.algorithm.find(',', begin), flags.algorithm.size());
    names.push_back(flags.algorithm.substr(begin, end - begin));
    launch::check_algorithm(names.back(), flags.transport);
    begin = end + 1;
  }
  return names;
}

BenchTask task_of(const BenchFlags& flags) {
  BenchTask task{.collective = collective::parse_collective(flags.operation)};
  task.algorithms = algorithms_of(flags, task.collective);
  const auto element = static_cast<int64_t>(bytes_of(parse_type(flags.type)));
  const Operation operation = parse_operation(flags.redop);
  if (collective::reduces(task.collective)) require_reducible(parse_type(flags.type), operation);
  const int64_t first = parse_bytes(flags.first);
  const int64_t last = parse_bytes(flags.last);
  if (first > last)
    throw BadInput("-b {} -e {}: expected a first size up to the last", flags.first, flags.last);
  if (flags.factor < 2) throw BadInput("-f {}: expected a factor of at least 2", flags.factor);
  if (!(flags.silence >= 0.1 && flags.silence <= 3600))
    throw BadInput("--silence {}: expected 0.1 to 3600 seconds", flags.silence);
  if (flags.batches < 1) throw BadInput("--batches {}: expected at least 1", flags.batches);
  if (flags.workers && (*flags.workers < 1 || *flags.workers > 256))
    throw BadInput("-n {}: expected 1 to 256 workers", *flags.workers);
  if (last < element)
    throw BadInput("-e {}: expected at least an element of {}", flags.last, flags.type);
  if (task.collective == Collective::barrier) {  // it carries no data
    task.sizes = {element};
    return task;
  }
  for (int64_t size = std::max(element, first / element * element); size <= last;
       size *= flags.factor) {
    task.sizes.push_back(size);
    if (size > last / flags.factor) break;  // the next one could overflow
  }
  return task;
}

bool has_data(const BenchFlags& flags) {
  return collective::parse_collective(flags.operation) != Collective::barrier;
}

// As nccl-tests calls the operation of collectives that do not reduce.
std::string redop_of(const BenchFlags& flags) {
  return collective::reduces(collective::parse_collective(flags.operation)) ? flags.redop : "none";
}

void print_barrier(const BenchFlags& flags, int world, const BenchmarkResult& result) {
  if (flags.json) {
    const nlohmann::ordered_json row = {{"op", flags.operation},
                                        {"transport", flags.transport},
                                        {"workers", world},
                                        {"time_us", result.seconds * 1e6},
                                        {"wrong", result.wrong}};
    fmt::print("{}\n", row.dump());
  } else {
    fmt::print("#{:>11}\n#{:>11}\n {:>11.2f}\n", "time", "(us)", result.seconds * 1e6);
  }
  std::fflush(stdout);
}

void print_head(const BenchFlags& flags, const Communicator& group) {
  fmt::print("# {}{}, {} over {}{}\n", flags.operation, has_data(flags) ? " of " + flags.type : "",
             plural(group.world_size(), "worker"), flags.transport,
             flags.fresh ? ", buckets written before each collective" : "");
  if (!has_data(flags)) return;
  fmt::print(
      "#{:>11} {:>11} {:>5} {:>5}  {:<16} {:>10} {:>8} {:>8} {:>8} {:>9} {:>7} {:>10}\n"
      "#{:>11} {:>11} {:>5} {:>5}  {:<16} {:>10} {:>8} {:>8} {:>8} {:>9} {:>7} {:>10}\n",
      "size", "count", "type", "redop", "algorithm", "time", "algbw", "busbw", "limit", "of the",
      "#wrong", "predicted", "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "(GB/s)",
      "limit", "", "(us)");
}

void print_row(const BenchFlags& flags, const BenchTask& task, const std::string& algorithm,
               int64_t bytes, int world, const BenchmarkResult& result,
               std::optional<double> predicted) {
  if (task.collective == Collective::barrier) return print_barrier(flags, world, result);
  const double bandwidth = static_cast<double>(bytes) / result.seconds * 1e-9;
  const double limit = static_cast<double>(bytes) / result.limit_seconds * 1e-9;
  const double bus = bandwidth * bus_factor(task.collective, world);
  const int64_t count = bytes / static_cast<int64_t>(bytes_of(parse_type(flags.type)));
  if (flags.json) {
    nlohmann::ordered_json row = {
        {"op", flags.operation},  {"algorithm", algorithm},   {"transport", flags.transport},
        {"workers", world},       {"bytes", bytes},           {"count", count},
        {"type", flags.type},     {"redop", redop_of(flags)}, {"time_us", result.seconds * 1e6},
        {"algbw_gbs", bandwidth}, {"busbw_gbs", bus},         {"limit_gbs", limit},
        {"wrong", result.wrong}};
    if (predicted) row["predicted_us"] = *predicted * 1e6;
    fmt::print("{}\n", row.dump());
  } else {
    fmt::print(
        " {:>11} {:>11} {:>5} {:>5}  {:<16} {:>10.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>7.0f} % "
        "{:>7} {:>10}\n",
        bytes, count, flags.type, redop_of(flags), algorithm, result.seconds * 1e6, bandwidth, bus,
        limit, 100 * bandwidth / limit, result.wrong,
        predicted ? fmt::format("{:.2f}", *predicted * 1e6) : "-");
  }
  std::fflush(stdout);
}

// The network between these workers; nothing where they exchange no messages.
std::optional<sim::Network> measure_network(Communicator& group, const BenchFlags& flags) {
  if (group.transport().shared_board() != nullptr || group.world_size() == 1) return std::nullopt;
  const sim::Network network = sim::calibrate(group, {.tell = tell});
  if (flags.verbose && group.rank() == 0)
    fmt::print(stderr, "auto: measured {}\n", describe(network));
  return network;
}

std::optional<double> predict(const std::optional<sim::Network>& network, const BenchTask& task,
                              Algorithm algorithm, int world, int64_t bytes) {
  const bool possible =
      network && task.collective == Collective::all_reduce && !algorithm.is_engine();
  if (!possible) return std::nullopt;
  return simulate(collective::all_reduce(algorithm, world, bytes), 1, *network).seconds;
}

// Workers that measure different things would wait for each other forever.
Facts facts_of(const BenchFlags& flags) {
  return {{"the operation", flags.operation},
          {"-b", flags.first},
          {"-e", flags.last},
          {"-f", fmt::format("{}", flags.factor)},
          {"--algorithm", flags.algorithm},
          {"--type", flags.type},
          {"--redop", flags.redop},
          {"--batches", fmt::format("{}", flags.batches)},
          {"--fresh", fmt::format("{}", flags.fresh)},
          {"--check", fmt::format("{}", flags.check)}};
}

int work(const BenchFlags& flags, const BenchTask& task, const launch::Job& job) {
  Communicator group(launch::connect(job, {.transport = flags.transport,
                                           .streams = flags.streams,
                                           .silence_seconds = flags.silence,
                                           .facts = facts_of(flags)}));
  const auto network = measure_network(group, flags);
  std::function<Algorithm(int64_t)> chosen = [&](int64_t bytes) {
    return collective::usual_algorithm(bytes, group.transport());
  };
  if (network) chosen = sim::cheapest_on(*network, group.world_size());
  const Algorithm between_measurements = collective::parse_algorithm("butterfly");
  const bool speaks = group.rank() == 0;
  if (speaks && !flags.json) print_head(flags, group);
  int64_t wrong = 0;
  for (const int64_t bytes : task.sizes) {
    std::map<double, std::string> by_time;
    for (const std::string& name : task.algorithms) {
      const Algorithm algorithm =
          name == "auto" ? chosen(bytes) : collective::parse_algorithm(name);
      // The all-reduces that coordinate the measurement do not use the algorithm that is measured.
      group.choose([=](int64_t size) { return size == bytes ? algorithm : between_measurements; });
      const BenchmarkResult result = measure(group, {.collective = task.collective,
                                                     .type = parse_type(flags.type),
                                                     .operation = parse_operation(flags.redop),
                                                     .bytes = bytes,
                                                     .batches = flags.batches,
                                                     .fresh = flags.fresh,
                                                     .check_every_batch = flags.check});
      const std::string shown =
          name == "auto" && task.collective == Collective::all_reduce ? algorithm.name() : name;
      if (speaks)
        print_row(flags, task, shown, bytes, group.world_size(), result,
                  predict(network, task, algorithm, group.world_size(), bytes));
      by_time.try_emplace(result.seconds, shown);
      wrong += result.wrong;
    }
    if (speaks && !flags.json && by_time.size() > 1)
      fmt::print("# fastest for {}: {}\n", format_bytes(bytes), by_time.begin()->second);
  }
  if (wrong > 0) throw Error(fmt::format("{} elements are wrong", wrong));
  return 0;
}

// The default depends on the launcher.
std::string transport_of(const BenchFlags& flags, const std::optional<launch::Job>& job) {
  if (flags.transport != "auto") return transport::transports().at(flags.transport).name;
  if (!job) return "shm";
  return job->by_mpi ? "mpi" : "hybrid";
}

int bench(BenchFlags flags) {
  const auto job = launch::job_from_environment();
  flags.transport = transport_of(flags, job);
  const BenchTask task = task_of(flags);
  if (job && flags.workers && *flags.workers != job->world)
    throw BadInput("-n {}: {} started {} workers; leave -n out", *flags.workers, job->launcher,
                   job->world);
  if (job) return work(flags, task, *job);
  const int workers = flags.workers.value_or(2);
  if (flags.transport == "mpi" || flags.transport == "hybrid-mpi")
    throw BadInput("--transport {}: start it by mpirun, as in: mpirun -n {} lockstep bench {} ...",
                   flags.transport, workers, flags.operation);
  const StartedPlaced started = start_placed({.asked_workers = workers}, launch::Prefixed::others);
  if (started.worker) launch::end_worker(work(flags, task, *started.worker));
  return started.exit_code;
}

class BenchCommand final : public Command {
 public:
  explicit BenchCommand(CLI::App& parent)
      : Command(parent, "bench", "Measure collectives between workers") {
    app()
        .add_option("OPERATION", flags_.operation,
                    fmt::format("{}", fmt::join(collective::collective_names(), ", ")))
        ->required()
        ->type_name("");
    app()
        .add_option("-n,--workers", flags_.workers,
                    "number of workers to start on this host (default 2)")
        ->type_name("N");
    app().add_option("-b,--begin", flags_.first, "smallest size (default 1KiB)")->type_name("SIZE");
    app().add_option("-e,--end", flags_.last, "largest size (default 64MiB)")->type_name("SIZE");
    app()
        .add_option("-f,--factor", flags_.factor,
                    "each size is this many times the one before (default 4)")
        ->type_name("F");
    app()
        .add_option(
            "--algorithm", flags_.algorithm,
            fmt::format("of all_reduce: auto (default), all, or names separated by commas: {}",
                        fmt::join(collective::algorithms().names(), ", ")))
        ->type_name("NAMES");
    app()
        .add_option("--transport", flags_.transport,
                    fmt::format("{} (default: shm; under mpirun mpi)",
                                fmt::join(transport::transports().names(), ", ")))
        ->type_name("NAME");
    app()
        .add_option("--type", flags_.type,
                    fmt::format("{} (default f32)", fmt::join(type_names(), ", ")))
        ->type_name("TYPE");
    app()
        .add_option("--redop", flags_.redop,
                    fmt::format("{} (default sum)", fmt::join(operation_names(), ", ")))
        ->type_name("OP");
    app()
        .add_option("--batches", flags_.batches,
                    "measure this many batches and report the best one (default 10)")
        ->type_name("K");
    app()
        .add_option("--streams", flags_.streams, "TCP connections between two workers (default 1)")
        ->type_name("K");
    app()
        .add_option("--silence", flags_.silence,
                    "heartbeat timeout: a worker that sends no heartbeat for this many seconds "
                    "counts as lost (default 10)")
        ->type_name("S");
    app().add_flag("--fresh", flags_.fresh,
                   "write all buckets before each collective, as training does");
    app().add_flag("--check", flags_.check, "check results after every batch, not only once");
    app().add_flag("--verbose", flags_.verbose, "print what auto measured");
    app().add_flag("--json", flags_.json, "print one JSON object per line");
    app().footer(
        "The columns size, count, type, redop, time, algbw (bytes / time), busbw and #wrong are "
        "those\n"
        "of nccl-tests. The limit is the speed at which all workers at once read and write as "
        "many\n"
        "bytes as a bucket has; more than 100 % of it means that buckets stayed in caches (see\n"
        "--fresh). The predicted time is the simulator's, for the network as measured at the "
        "start.\n"
        "Sizes are powers of two: 1M is 1,048,576 bytes.\n"
        "Under torchrun, mpirun or srun, bench uses the job's workers and starts none.\n"
        "Examples:\n"
        "  RANK=0 WORLD_SIZE=2 MASTER_ADDR=node1 LOCKSTEP_JOB_KEY=... lockstep bench all_reduce\n"
        "  lockstep bench all_reduce -n 2 -b 1K -e 64M --algorithm all\n"
        "  lockstep bench all_reduce -n 4 --transport tcp --verbose\n"
        "  mpirun -n 2 lockstep bench all_reduce --transport mpi --algorithm butterfly,engine");
  }

  int run() override { return bench(flags_); }

 private:
  BenchFlags flags_;
};

}  // namespace

std::unique_ptr<Command> add_bench(CLI::App& parent) {
  return std::make_unique<BenchCommand>(parent);
}

}  // namespace lockstep::cli
