#include "sim/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "sim/fit.h"
#include "sim/predict.h"

namespace lockstep::sim {
namespace {

using collective::Communicator;

constexpr int kTries = 7;
constexpr size_t kBurst = 32;

// Pairs of neighbours: 0 and 1, 2 and 3, ... Of an odd number the last looks on.
int partner_of(const Communicator& group) {
  const int partner = group.rank() ^ 1;
  return partner < group.world() ? partner : -1;
}

// The best of some exchanges of `messages` messages of `bytes` each way.
double best_exchange(Communicator& group, size_t messages, size_t bytes,
                     const transport::Memory& memory) {
  const int partner = partner_of(group);
  double best = HUGE_VAL;
  std::vector<transport::Outgoing> outgoing;
  std::vector<transport::Incoming> incoming;
  std::byte* const out = memory.data.get();
  std::byte* const in = out + memory.bytes / 2;
  for (size_t i = 0; i < messages && partner >= 0; ++i) {
    outgoing.push_back({partner, out, bytes});
    incoming.push_back({partner, in, bytes});
  }
  for (int i = 0; i < kTries; ++i) {
    group.barrier();
    const Stopwatch stopwatch;
    if (partner >= 0)
      group.transport().exchange({{messages, bytes}}, outgoing, incoming, Deadline::in(60));
    best = std::min(best, stopwatch.seconds());
  }
  return partner >= 0 ? best : 0;
}

// What ranks measured, averaged over those that did.
double average(Communicator& group, double value) {
  double values[2] = {value, value > 0 ? 1.0 : 0.0};
  group.all_reduce({reinterpret_cast<std::byte*>(values), 2, Type::f64});
  return values[0] / std::max(1.0, values[1]);
}

}  // namespace

Network calibrate(Communicator& group) {
  Network network;
  if (group.world() < 2) return network;
  constexpr size_t kLargest = 2 << 20;
  const transport::Memory memory = group.allocate(2 * kLargest);
  const double one = average(group, best_exchange(group, 1, 8, memory));
  const double burst = average(group, best_exchange(group, kBurst, 8, memory));
  network.overhead = std::max(0.0, burst - one) / (2 * (kBurst - 1));
  network.eager_bytes = 64 * 1024;
  std::vector<Measurement> measurements;
  for (const size_t bytes : {size_t{8}, size_t{4096}, size_t{65536}, size_t{524288}, kLargest})
    measurements.push_back(
        {static_cast<int64_t>(bytes), average(group, best_exchange(group, 1, bytes, memory))});
  return fit(measurements, network);
}

std::function<collective::Algorithm(int64_t)> cheapest_on(const Network& network, int world) {
  const auto known = std::make_shared<std::map<uint64_t, collective::Algorithm>>();
  return [=](int64_t bytes) {
    const uint64_t size = std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(bytes, 1)));
    const auto found = known->find(size);
    if (found != known->end()) return found->second;
    const auto cheapest =
        predict(world, static_cast<int64_t>(size), network, Among::canonical).front().algorithm;
    return known->emplace(size, cheapest).first->second;
  };
}

std::string describe(const Network& network) {
  return fmt::format("latency {:.1f} us, {:.0f} MB/s, {:.1f} us of processor a message",
                     network.latency * 1e6, network.bytes_per_second / 1e6, network.overhead * 1e6);
}

}  // namespace lockstep::sim
