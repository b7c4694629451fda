#include "collective/benchmark.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/clock.h"
#include "collective/benchmark_data.h"
#include "collective/fold/fold.h"

namespace lockstep::collective {
namespace {

constexpr double kBatchSeconds = 0.03;
constexpr int kMostPerBatch = 20'000;

// The same number on every rank: the largest of all.
double largest(Communicator& group, double value) {
  group.all_reduce({reinterpret_cast<std::byte*>(&value), 1, Type::f64}, Operation::max);
  return value;
}

// Seconds of one `action`, on the slowest rank.
double time_batch(Communicator& group, int times, const std::function<void()>& action) {
  group.barrier();
  const Stopwatch stopwatch;
  for (int i = 0; i < times; ++i) action();
  return largest(group, stopwatch.seconds() / times);
}

int times_per_batch(Communicator& group, const std::function<void()>& action) {
  const double once = time_batch(group, 1, action);
  const double soon = time_batch(group, std::clamp(static_cast<int>(1e-3 / once), 1, 100), action);
  return std::clamp(static_cast<int>(kBatchSeconds / soon), 1, kMostPerBatch);
}

// Reads and writes every byte once, as fast as can be.
void touch(Buffer buffer) {
  combiner(Type::f32, Operation::sum)(buffer.data, buffer.data, buffer.bytes() / 4 * 4);
}

int64_t wrong_everywhere(Communicator& group, const Benchmark& benchmark, Buffer buffer) {
  fill(buffer, group.rank(), benchmark.operation);
  call(group, benchmark.collective, buffer, benchmark.operation);
  int64_t wrong = count_wrong(benchmark.collective, buffer, group.rank(), group.world_size(),
                              benchmark.operation);
  group.all_reduce({reinterpret_cast<std::byte*>(&wrong), 1, Type::i64});
  return wrong;
}

}  // namespace

void call(Communicator& group, Collective collective, Buffer buffer, Operation operation) {
  switch (collective) {
    case Collective::all_reduce:
      return group.all_reduce(buffer, operation);
    case Collective::broadcast:
      return group.broadcast(buffer, 0);
    case Collective::reduce:
      return group.reduce(buffer, 0, operation);
    case Collective::all_gather:
      return group.all_gather(buffer);
    case Collective::reduce_scatter:
      return group.reduce_scatter(buffer, operation);
    case Collective::gather:
      return group.gather(buffer, 0);
    case Collective::scatter:
      return group.scatter(buffer, 0);
    case Collective::barrier:
      return group.barrier();
    case Collective::send_receive:
      if (group.world_size() > 1 && group.rank() == 0) return group.send(buffer, 1);
      if (group.rank() == 1) return group.receive(buffer, 0);
      return;
  }
}

BenchmarkResult measure(Communicator& group, const Benchmark& benchmark) {
  const auto memory = group.allocate(static_cast<size_t>(benchmark.bytes));
  const Buffer buffer{memory.data.get(),
                      benchmark.bytes / static_cast<int64_t>(bytes_of(benchmark.type)),
                      benchmark.type};
  BenchmarkResult result{.seconds = HUGE_VAL, .limit_seconds = HUGE_VAL};
  result.wrong = wrong_everywhere(group, benchmark, buffer);

  // Zeros stay zeros however often they are added.
  const auto write = [&] { std::memset(buffer.data, 0, buffer.bytes()); };
  const auto act = [&] {
    if (benchmark.fresh) write();
    call(group, benchmark.collective, buffer, benchmark.operation);
  };
  const auto touch_all = [&] { touch(buffer); };
  write();
  const int times = times_per_batch(group, act);
  const int touches = times_per_batch(group, touch_all);
  double writing = benchmark.fresh ? HUGE_VAL : 0;
  for (int batch = 0; batch < benchmark.batches; ++batch) {
    write();
    result.seconds = std::min(result.seconds, time_batch(group, times, act));
    if (benchmark.fresh) writing = std::min(writing, time_batch(group, times, write));
    result.limit_seconds = std::min(result.limit_seconds, time_batch(group, touches, touch_all));
    if (benchmark.check_every_batch) result.wrong += wrong_everywhere(group, benchmark, buffer);
  }
  result.seconds -= writing;
  return result;
}

double bus_factor(Collective collective, int world) {
  const double n = world;
  switch (collective) {
    case Collective::all_reduce:
      return 2 * (n - 1) / n;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::gather:
    case Collective::scatter:
      return (n - 1) / n;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::send_receive:
    case Collective::barrier:
      break;
  }
  return 1;
}

}  // namespace lockstep::collective
