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

int64_t wrong_everywhere(Communicator& group, const Benchmark& benchmark, Buffer buffer,
                         Buffer second) {
  fill(buffer, group.rank(), benchmark.operation);
  const Buffer result = call(group, benchmark.collective, buffer, second, benchmark.operation);
  int64_t wrong = count_wrong(benchmark.collective, result, group.rank(), group.world_size(),
                              benchmark.operation);
  group.all_reduce({reinterpret_cast<std::byte*>(&wrong), 1, Type::i64});
  return wrong;
}

}  // namespace

Buffer call(Communicator& group, Collective collective, Buffer buffer, Buffer second,
            Operation operation) {
  const int rank = group.rank();
  const int world = group.world_size();
  switch (collective) {
    case Collective::all_reduce:
      group.all_reduce(buffer, operation);
      break;
    case Collective::broadcast:
      group.broadcast(buffer, 0);
      break;
    case Collective::reduce:
      group.reduce(buffer, 0, operation);
      break;
    case Collective::all_gather:
      group.all_gather(buffer);
      break;
    case Collective::reduce_scatter:
      group.reduce_scatter(buffer, operation);
      break;
    case Collective::gather:
      group.gather(buffer, 0);
      break;
    case Collective::scatter:
      group.scatter(buffer, 0);
      break;
    case Collective::barrier:
      group.barrier();
      break;
    case Collective::send_receive:
      if (world > 1 && rank == 0) group.send(buffer, 1);
      if (rank == 1) group.receive(buffer, 0);
      break;
    case Collective::all_to_all:
      group.all_to_all(buffer, second);
      return second;
    case Collective::exchange:
      group.exchange(buffer, (rank + 1) % world, second, (rank + world - 1) % world);
      return second;
  }
  return buffer;
}

BenchmarkResult measure(Communicator& group, const Benchmark& benchmark) {
  const bool in_place = benchmark.collective != Collective::all_to_all &&
                        benchmark.collective != Collective::exchange;
  const auto bytes = static_cast<size_t>(benchmark.bytes);
  const auto memory = group.allocate(in_place ? bytes : 2 * bytes);
  int64_t count = benchmark.bytes / static_cast<int64_t>(bytes_of(benchmark.type));
  if (benchmark.collective == Collective::all_to_all) count -= count % group.world_size();
  const Buffer buffer{memory.data.get(), count, benchmark.type};
  const Buffer second =
      in_place ? Buffer{} : Buffer{memory.data.get() + bytes, count, benchmark.type};
  BenchmarkResult result{.seconds = HUGE_VAL, .limit_seconds = HUGE_VAL};
  result.wrong = wrong_everywhere(group, benchmark, buffer, second);

  // Zeros stay zeros however often they are added.
  const auto write = [&] { std::memset(buffer.data, 0, buffer.bytes()); };
  const auto act = [&] {
    if (benchmark.fresh) write();
    call(group, benchmark.collective, buffer, second, benchmark.operation);
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
    if (benchmark.check_every_batch)
      result.wrong += wrong_everywhere(group, benchmark, buffer, second);
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
    case Collective::all_to_all:
      return (n - 1) / n;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::send_receive:
    case Collective::exchange:
    case Collective::barrier:
      break;
  }
  return 1;
}

}  // namespace lockstep::collective
