#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "collective/communicator.h"
#include "collective/plan/shards.h"

namespace lockstep::collective {

using Floats = std::vector<float>;

inline Buffer buffer_of(Floats& values) {
  return {reinterpret_cast<std::byte*>(values.data()), static_cast<int64_t>(values.size()),
          Type::f32};
}

inline Floats random_floats(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 1);
  Floats values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random) * static_cast<float>(1 << random() % 20);
  return values;
}

/// The canonical sum over shards begin .. end-1, of which shard i is random_floats(count, i).
inline Floats canonical_sum(int64_t begin, int64_t end, int64_t count) {
  if (end - begin == 1) return random_floats(count, static_cast<uint64_t>(begin));
  const int64_t half = middle(begin, end);
  Floats left = canonical_sum(begin, half, count);
  const Floats right = canonical_sum(half, end, count);
  for (size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}

inline bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// All-reduce of shards 0 .. shards.count()-1, each rank giving its terms.
inline Floats sum_of_shards(Communicator& group, const Shards& shards, int64_t count) {
  std::vector<Floats> sums;
  for (const Term& term : shards.terms_of(group.rank()))
    sums.push_back(canonical_sum(term.begin, term.end, count));
  std::vector<Buffer> terms;
  for (Floats& sum : sums) terms.push_back(buffer_of(sum));
  group.all_reduce(terms, shards, Operation::sum);
  return sums[0];
}

}  // namespace lockstep::collective
