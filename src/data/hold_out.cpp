#include "data/hold_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "data/dataset.h"
#include "device/random.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// True for each of `count` samples to hold out. Selection sampling: a sample is chosen with
// probability (samples still to choose) / (samples left).
std::vector<bool> choose(int64_t size, int64_t count, RandomStream stream) {
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

// A subset of a data set's samples.
class Subset final : public DatasetLayer {
 public:
  Subset(std::shared_ptr<const Dataset> dataset, std::vector<int64_t> samples)
      : DatasetLayer(std::move(dataset)), samples_(std::move(samples)) {}

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  int64_t items(int64_t index) const override { return items_of(below(), sample(index)); }
  void write(int64_t index, const Sample& to) const override {
    write_sample(below(), sample(index), to);
  }
  std::string digest() const override {
    Digest digest(Digest::Kind::sha256);
    digest.add(below().digest());
    digest.add(std::as_bytes(std::span(samples_)));
    return digest.hex();
  }

 private:
  int64_t sample(int64_t index) const { return samples_[static_cast<size_t>(index)]; }

  const std::vector<int64_t> samples_;  ///< indices in the wrapped data set
};

std::shared_ptr<const Dataset> part(const std::shared_ptr<const Dataset>& all,
                                    const std::vector<bool>& chosen, bool wanted) {
  std::vector<int64_t> samples;
  for (size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i] == wanted) samples.push_back(static_cast<int64_t>(i));
  return std::make_shared<Subset>(all, std::move(samples));
}

struct Part {
  const char* name;
  double fraction;
  RandomStream stream;
};

// Moves samples from `all` to the part.
std::shared_ptr<const Dataset> take_part(std::shared_ptr<const Dataset>& all, const Part& taken) {
  if (!(taken.fraction > 0 && taken.fraction < 1))
    throw BadInput("data.{}_fraction {}: expected more than 0 and less than 1", taken.name,
                   taken.fraction);
  const int64_t size = all->size();
  if (size < 2)
    throw BadInput("data: {} sample(s) and no {} split: at least 2 are needed to hold one out",
                   size, taken.name);
  const auto wanted = std::llround(taken.fraction * static_cast<double>(size));
  const std::vector<bool> chosen =
      choose(size, std::clamp<int64_t>(wanted, 1, size - 1), taken.stream);
  auto held_out = part(all, chosen, true);
  all = part(all, chosen, false);
  return held_out;
}

}  // namespace

Splits hold_out(Splits splits, const HoldOut& options) {
  const auto seed = static_cast<uint64_t>(options.seed);
  const auto warn = [&](const char* split) {
    splits.warnings.push_back(fmt::format(
        "data.{}_fraction has no effect: the data have a {} split of their own", split, split));
  };
  if (splits.test && options.test_fraction != HoldOut().test_fraction) warn("test");
  if (splits.validation && options.validation_fraction != 0) warn("validation");
  if (!splits.test)
    splits.test = take_part(splits.train,
                            {"test", options.test_fraction, RandomStream(Purpose::hold_out, seed)});
  if (!splits.validation && options.validation_fraction != 0)
    splits.validation = take_part(splits.train, {"validation", options.validation_fraction,
                                                 RandomStream(Purpose::validation, seed)});
  return splits;
}

}  // namespace lockstep::data
