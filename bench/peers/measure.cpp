#include "measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <sstream>

namespace lockstep::peers {
namespace {

constexpr double kBatchSeconds = 0.02;
constexpr size_t kAlignment = 4096;

double now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

// Small whole numbers, so that every order of addition gives the same sum.
float element(size_t index, int rank) {
  return static_cast<float>(index % 31 + static_cast<size_t>(rank));
}

size_t count_wrong(Peer& peer, const std::function<void()>& run, float* data, size_t count) {
  for (size_t i = 0; i < count; ++i) data[i] = element(i, peer.rank());
  run();
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int rank = 0; rank < peer.world_size(); ++rank) sum += element(i, rank);
    wrong += data[i] != sum ? 1 : 0;
  }
  std::fill(data, data + count, 0.0F);  // stays zero however often it is summed
  return wrong;
}

double time_batch(Peer& peer, const std::function<void()>& run, int calls) {
  peer.barrier();
  const double begin = now();
  for (int i = 0; i < calls; ++i) run();
  return peer.largest(now() - begin) / calls;
}

double best_time(Peer& peer, const std::function<void()>& run, int rounds) {
  double best = time_batch(peer, run, 3);
  best = std::min(best, time_batch(peer, run, 3));
  const int calls = std::clamp(static_cast<int>(kBatchSeconds / best), 1, 20'000);
  for (int round = 0; round < rounds; ++round) best = std::min(best, time_batch(peer, run, calls));
  return best;
}

struct Free {
  void operator()(float* memory) const { std::free(memory); }
};

size_t measure_size(Peer& peer, size_t bytes, int rounds) {
  const size_t count = bytes / sizeof(float);
  const size_t pages = std::max<size_t>(1, (bytes + kAlignment - 1) / kAlignment);
  const std::unique_ptr<float, Free> data(
      static_cast<float*>(std::aligned_alloc(kAlignment, pages * kAlignment)));
  size_t wrong = 0;
  double best = std::numeric_limits<double>::infinity();
  std::string best_way;
  for (const std::string& way : peer.ways()) {
    const auto run = peer.all_reduce(way, data.get(), count);
    wrong += static_cast<size_t>(
        peer.largest(static_cast<double>(count_wrong(peer, run, data.get(), count))));
    const double time = best_time(peer, run, rounds);
    if (time >= best) continue;
    best = time;
    best_way = way;
  }
  if (peer.rank() == 0) {
    std::printf(
        R"({"peer":"%s","way":"%s","bytes":%zu,"workers":%d,"time_us":%.3f,"algbw_gbs":%.4f,"wrong":%zu})"
        "\n",
        peer.name().c_str(), best_way.c_str(), bytes, peer.world_size(), best * 1e6,
        static_cast<double>(bytes) / best / 1e9, wrong);
    std::fflush(stdout);
  }
  return wrong;
}

[[noreturn]] void refuse(const std::string& what) {
  std::fprintf(stderr, "%s; usage: [--bytes 1024,1048576] [--rounds 10] [--workers 2]\n",
               what.c_str());
  std::exit(2);
}

}  // namespace

Plan parse(int argc, char** argv) {
  Plan plan;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (i + 1 == argc) refuse(flag + ": expected a value");
    if (flag == "--rounds") {
      plan.rounds = std::atoi(argv[i + 1]);
    } else if (flag == "--workers") {
      plan.workers = std::atoi(argv[i + 1]);
    } else if (flag == "--bytes") {
      plan.bytes.clear();
      std::istringstream list(argv[i + 1]);
      for (std::string one; std::getline(list, one, ',');) plan.bytes.push_back(std::stoul(one));
    } else {
      refuse(flag + ": no such flag");
    }
  }
  if (plan.rounds < 1 || plan.workers < 1) refuse("--rounds, --workers: expected at least 1");
  return plan;
}

size_t measure(Peer& peer, const Plan& plan) {
  size_t wrong = 0;
  for (const size_t bytes : plan.bytes) wrong += measure_size(peer, bytes, plan.rounds);
  return wrong;
}

}  // namespace lockstep::peers
