#include "sim/predict.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>

#include "sim/simulate.h"

namespace lockstep::sim {
namespace {

using collective::Algorithm;

// The fastest pairwise algorithm if it is almost as fast as the fastest of all.
Algorithm choose(const std::vector<Prediction>& fastest_first) {
  constexpr double kAsGoodAs = 1.05;
  const Prediction& fastest = fastest_first.front();
  for (const Prediction& prediction : fastest_first)
    if (prediction.algorithm->pairwise && prediction.seconds <= kAsGoodAs * fastest.seconds)
      return prediction.algorithm;
  return fastest.algorithm;
}

}  // namespace

std::vector<Prediction> predict(int world, int64_t bytes, const Network& network, Among among) {
  constexpr int64_t kElementBytes = 4;
  const int64_t count = (bytes + kElementBytes - 1) / kElementBytes;
  std::vector<Prediction> predictions;
  for (const Algorithm algorithm : collective::planned_algorithms()) {
    if (among == Among::canonical && !algorithm.is_canonical()) continue;
    const collective::Plan plan = collective::all_reduce(algorithm, world, count);
    predictions.push_back({algorithm, simulate(plan, kElementBytes, network).seconds});
  }
  std::stable_sort(predictions.begin(), predictions.end(),
                   [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  return predictions;
}

std::function<Algorithm(int64_t)> cheapest_on(const Network& network, int world) {
  const auto known = std::make_shared<std::map<uint64_t, Algorithm>>();
  return [=](int64_t bytes) {
    const uint64_t size = std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(bytes, 1)));
    const auto found = known->find(size);
    if (found != known->end()) return found->second;
    const Algorithm fastest =
        choose(predict(world, static_cast<int64_t>(size), network, Among::canonical));
    return known->emplace(size, fastest).first->second;
  };
}

}  // namespace lockstep::sim
