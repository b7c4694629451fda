#include "sim/predict.h"

#include <algorithm>

#include "sim/simulate.h"

namespace lockstep::sim {

std::vector<Prediction> predict(int world, int64_t bytes, const Network& network, Among among) {
  constexpr int64_t kElementBytes = 4;
  const int64_t count = (bytes + kElementBytes - 1) / kElementBytes;
  std::vector<Prediction> predictions;
  for (const collective::Algorithm algorithm : collective::planned_algorithms()) {
    if (among == Among::canonical && !algorithm.is_canonical()) continue;
    const collective::Plan plan = collective::all_reduce(algorithm, world, count);
    predictions.push_back({algorithm, simulate(plan, kElementBytes, network).seconds});
  }
  std::stable_sort(predictions.begin(), predictions.end(),
                   [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  return predictions;
}

}  // namespace lockstep::sim
