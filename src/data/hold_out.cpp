#include "data/hold_out.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "device/random.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// True for each of `count` samples to set aside. Selection sampling: a sample is taken with the
// probability that the rest of the places and the rest of the samples give it.
std::vector<bool> choose(int64_t size, int64_t count, uint64_t seed) {
  RandomStream stream(Purpose::hold_out, seed);
  std::vector<bool> chosen(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    const auto left = static_cast<uint64_t>(size - i);
    if (std::cmp_less(stream.below(left), count)) {
      chosen[static_cast<size_t>(i)] = true;
      --count;
    }
  }
  return chosen;
}

template <typename T>
std::vector<T> pick(const std::vector<T>& from, size_t per_sample, const std::vector<bool>& chosen,
                    bool wanted) {
  std::vector<T> picked;
  const auto count = static_cast<size_t>(std::count(chosen.begin(), chosen.end(), wanted));
  picked.reserve(count * per_sample);
  for (size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i] == wanted)
      picked.insert(picked.end(), from.begin() + static_cast<std::ptrdiff_t>(i * per_sample),
                    from.begin() + static_cast<std::ptrdiff_t>((i + 1) * per_sample));
  return picked;
}

Dataset part(const Dataset& all, const std::vector<bool>& chosen, bool wanted) {
  const auto per_sample = static_cast<size_t>(elements(all.shape));
  Dataset dataset;
  dataset.shape = all.shape;
  dataset.class_names = all.class_names;
  dataset.labels = pick(all.labels, 1, chosen, wanted);
  std::visit([&](const auto& values) { dataset.values = pick(values, per_sample, chosen, wanted); },
             all.values);
  return dataset;
}

}  // namespace

Splits hold_out(const Dataset& all, double fraction, uint64_t seed) {
  if (!(fraction > 0 && fraction < 1))
    throw BadInput("data.test_fraction {}: expected more than 0 and less than 1", fraction);
  if (all.size() < 2)
    throw BadInput("data: {} sample(s) and no test split: at least 2 are needed to hold one out",
                   all.size());
  const auto wanted = std::llround(fraction * static_cast<double>(all.size()));
  const auto count = std::clamp<int64_t>(wanted, 1, all.size() - 1);
  const std::vector<bool> chosen = choose(all.size(), count, seed);
  Splits splits;
  splits.train = part(all, chosen, false);
  splits.test = part(all, chosen, true);
  return splits;
}

}  // namespace lockstep::data
