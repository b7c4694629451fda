// How the model's numbers follow from measurements. Two long messages of different size give the
// bandwidth of links; where the line through both does not begin at a short message's time, links
// let bursts pass. Short all-reduces by each algorithm give latency, overhead and wake-up time: the
// numbers with which the simulated times are closest to the measured ones, found by coordinate
// descent.
#include "sim/calibrate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/host.h"
#include "collective/fold/fold.h"
#include "collective/program.h"
#include "sim/simulate.h"

namespace lockstep::sim {
namespace {

using collective::Algorithm;
using collective::Communicator;
using collective::Plan;
using collective::Program;

constexpr int64_t kShortElements = 1024;
constexpr int64_t kElementBytes = 4;
constexpr size_t kLong = 2 << 20;
constexpr size_t kLongest = 6 << 20;

// The same number on every rank: the average of all.
double average(Communicator& group, double value) {
  group.all_reduce({reinterpret_cast<std::byte*>(&value), 1, Type::f64}, Operation::mean);
  return value;
}

// Ranks under one kernel share its processors, even if they have different host names.
double shared_processors(Communicator& group) {
  const auto kernels = group.gather_texts(kernel_identity());
  const bool one_machine = std::all_of(kernels.begin(), kernels.end(),
                                       [&](const std::string& each) { return each == kernels[0]; });
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  return one_machine && processors < group.world_size() ? static_cast<double>(processors)
                                                        : kUnlimited;
}

// Seconds in which every rank sends a message to the next: the best of a few, with pauses in which
// token buckets of links refill.
double measure_long(Communicator& group, const transport::Memory& memory, size_t bytes) {
  constexpr int kTries = 8;
  constexpr std::chrono::milliseconds kRest(3);
  const int world = group.world_size();
  const transport::Outgoing out{(group.rank() + 1) % world, memory.data.get(), bytes};
  const transport::Incoming in{(group.rank() + world - 1) % world,
                               memory.data.get() + memory.bytes / 2, bytes};
  double best = HUGE_VAL;
  for (int i = 0; i < kTries; ++i) {
    group.barrier();
    std::this_thread::sleep_for(kRest);
    const Stopwatch stopwatch;
    group.transport().exchange({{bytes}}, {&out, 1}, {&in, 1}, Deadline::in(60));
    best = std::min(best, stopwatch.seconds());
  }
  return average(group, best);
}

// Bytes a second that a rank folds.
double measure_folding(Communicator& group, const transport::Memory& memory) {
  constexpr int kTries = 3;
  const size_t bytes = memory.bytes / 2;
  double best = HUGE_VAL;
  for (int i = 0; i < kTries; ++i) {
    const Stopwatch stopwatch;
    collective::combiner(Type::f32, Operation::sum)(memory.data.get(), memory.data.get() + bytes,
                                                    bytes);
    best = std::min(best, stopwatch.seconds());
  }
  return static_cast<double>(bytes) / average(group, best);
}

struct MeasuredPlan {
  Plan plan;
  double seconds;
};

// Seconds of an all-reduce: the average of some in a row, the best of several tries.
double measure_short(Communicator& group, const transport::Memory& memory, const Plan& plan) {
  constexpr int kRepeats = 60;
  constexpr int kTries = 4;
  const Program program(plan, group.rank());
  const size_t stride = kShortElements * kElementBytes;
  std::vector<std::byte*> slots;
  for (int slot = 0; slot < program.slots(); ++slot)
    slots.push_back(memory.data.get() + stride * static_cast<size_t>(slot));
  double best = HUGE_VAL;
  for (int i = 0; i < kTries; ++i) {
    group.barrier();
    const Stopwatch stopwatch;
    for (int k = 0; k < kRepeats; ++k)
      collective::run(program, {slots}, group.transport(), {{0, 1}}, Deadline::in(60));
    best = std::min(best, stopwatch.seconds() / kRepeats);
  }
  return average(group, best);
}

// Rounds and messages of rank 0.
int length_of(const Plan& plan) {
  size_t messages = 0;
  for (int index = 0; index < plan.rounds; ++index) {
    const collective::Round round = plan.round(0, index);
    messages += round.sends.size() + round.receives.size();
  }
  return plan.rounds + static_cast<int>(messages);
}

// Plans that are measured and simulated again and again: of many ranks, only those whose length
// grows with log2 n.
std::vector<Plan> sampled_plans(int world) {
  constexpr int kFewRanks = 16;
  constexpr int kMostPerLevel = 8;
  std::vector<Plan> plans;
  for (const Algorithm algorithm : collective::planned_algorithms()) {
    Plan plan = collective::all_reduce(algorithm, world, kShortElements);
    if (world <= kFewRanks || length_of(plan) <= kMostPerLevel * collective::depth(world))
      plans.push_back(std::move(plan));
  }
  return plans;
}

// Sum of squared logarithms of simulated/measured.
double distance(const Network& network, const std::vector<MeasuredPlan>& samples) {
  double sum = 0;
  for (const MeasuredPlan& sample : samples) {
    const double simulated = simulate(sample.plan, kElementBytes, network).seconds;
    sum += std::pow(std::log(std::max(simulated, 1e-9) / sample.seconds), 2);
  }
  return sum;
}

void fit_to_samples(Network& network, const std::vector<MeasuredPlan>& samples) {
  std::vector<double Network::*> numbers = {&Network::latency, &Network::overhead,
                                            &Network::overhead_per_byte};
  if (network.processors != kUnlimited) numbers.push_back(&Network::wake);
  constexpr double kLeast = 1e-11;  // seconds, or seconds a byte: factors cannot leave zero
  double best = distance(network, samples);
  const auto improve = [&](double Network::* number, double factor) {
    Network other = network;
    other.*number = std::max(kLeast, other.*number * factor);
    const double at_other = distance(other, samples);
    if (at_other >= best) return false;
    network = other;
    best = at_other;
    return true;
  };
  for (const double step : {2.0, 1.4, 1.2, 1.1, 1.05, 1.02}) {
    constexpr int kMostPasses = 30;
    bool moved = true;
    for (int pass = 0; moved && pass < kMostPasses; ++pass) {
      moved = false;
      for (double Network::* number : numbers)
        moved = improve(number, step) || improve(number, 1 / step) || moved;
    }
  }
}

// From the times of long messages. Shaped links let bursts of tens or hundreds of kilobytes pass;
// what looks like a larger burst is an effect of caches, or of other load during the shorter
// message.
void set_speed(Network& network, double middle, double most) {
  constexpr double kMostBurst = kLong / 8.0;
  const double slope = static_cast<double>(kLongest - kLong) / std::max(1e-9, most - middle);
  const double burst = static_cast<double>(kLongest) - most * slope;
  const bool shaped = burst > 0 && burst <= kMostBurst;
  network.bytes_per_second = shaped ? slope : static_cast<double>(kLongest) / most;
  network.burst_bytes = shaped ? static_cast<int64_t>(burst) : 0;
}

}  // namespace

Network calibrate(Communicator& group) {
  Network network;
  if (group.world_size() < 2) return network;
  const transport::Memory memory = group.allocate(2 * kLongest);
  const double middle = measure_long(group, memory, kLong);
  const double most = measure_long(group, memory, kLongest);
  set_speed(network, middle, most);
  network.eager_bytes = int64_t{64} * 1024;
  network.reduce_bytes_per_second = measure_folding(group, memory);
  network.processors = shared_processors(group);

  std::vector<MeasuredPlan> samples;
  for (const Plan& plan : sampled_plans(group.world_size()))
    samples.push_back({plan, measure_short(group, memory, plan)});
  network.latency = 10e-6;
  network.overhead = 5e-6;
  network.overhead_per_byte = 0.5e-9;
  network.wake = network.processors == kUnlimited ? 0 : 5e-6;
  fit_to_samples(network, samples);
  return network;
}

std::string describe(const Network& network) {
  std::string text = fmt::format(
      "latency {:.1f} us, {:.0f} MB/s, {:.1f} us of processor time a message and {:.2f} ns a byte",
      network.latency * 1e6, network.bytes_per_second / 1e6, network.overhead * 1e6,
      network.overhead_per_byte * 1e9);
  if (network.processors != kUnlimited)
    text += fmt::format(", {:.1f} us to wake up, {} processors shared by all ranks",
                        network.wake * 1e6, network.processors);
  if (network.burst_bytes > 0) text += fmt::format(", bursts of {} bytes", network.burst_bytes);
  return text;
}

}  // namespace lockstep::sim
