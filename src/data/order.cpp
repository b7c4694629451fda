#include "data/order.h"

#include <numeric>
#include <utility>

#include "device/random.h"

namespace lockstep::data {

void fill_epoch_order(std::span<int64_t> into, Order order, uint64_t seed, int64_t epoch) {
  std::iota(into.begin(), into.end(), int64_t{0});
  if (order == Order::sequential) return;
  // Fisher-Yates: every permutation is equally likely.
  RandomStream stream(Purpose::shuffle, seed, epoch);
  for (size_t left = into.size(); left > 1; --left)
    std::swap(into[left - 1], into[stream.below(left)]);
}

std::vector<int64_t> epoch_order(int64_t size, Order order, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> samples(static_cast<size_t>(size));
  fill_epoch_order(samples, order, seed, epoch);
  return samples;
}

}  // namespace lockstep::data
