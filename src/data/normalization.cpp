#include <algorithm>
#include <array>
#include <cmath>

#include "data/loader.h"

namespace lockstep::data {
namespace {

struct Moments {
  double mean = 0;
  double deviation = 0;
};

// The parts of `values` that belong to one channel: a plane of each sample.
template <typename T>
struct Planes {
  const std::vector<T>& values;
  size_t first;   // where the channel's first plane starts
  size_t plane;   // its elements
  size_t stride;  // from one sample's plane to the next's

  template <typename Take>
  void for_each(Take take) const {
    for (size_t start = first; start < values.size(); start += stride)
      take(std::span(values).subspan(start, plane));
  }
  int64_t count() const { return static_cast<int64_t>(values.size() / stride * plane); }
};

Moments measure(const Planes<uint8_t>& planes) {
  // Sums of so few squares fit 32 bits, which vectorizes; the totals are exact.
  constexpr size_t kPixelsAtATime = 65'536;
  uint64_t sum = 0;
  uint64_t squares = 0;
  planes.for_each([&](std::span<const uint8_t> plane) {
    for (size_t start = 0; start < plane.size(); start += kPixelsAtATime) {
      uint32_t piece_sum = 0;
      uint32_t piece_squares = 0;
      for (const uint32_t value :
           plane.subspan(start, std::min(kPixelsAtATime, plane.size() - start))) {
        piece_sum += value;
        piece_squares += value * value;
      }
      sum += piece_sum;
      squares += piece_squares;
    }
  });
  const auto count = static_cast<uint64_t>(planes.count());
  using Wide = unsigned __int128;
  const auto spread = static_cast<double>(Wide{count} * squares - Wide{sum} * sum);
  const auto n = static_cast<double>(count);
  return {static_cast<double>(sum) / n / 255, std::sqrt(spread) / n / 255};
}

// Sums in eight lanes, each in the order of the elements, so the result never depends on how the
// compiler vectorizes.
template <typename Of>
double fixed_order_sum(const Planes<float>& planes, Of of) {
  std::array<double, 8> lanes{};
  planes.for_each([&](std::span<const float> plane) {
    size_t i = 0;
    for (; i + lanes.size() <= plane.size(); i += lanes.size())
      for (size_t lane = 0; lane < lanes.size(); ++lane) lanes[lane] += of(plane[i + lane]);
    for (; i < plane.size(); ++i) lanes[0] += of(plane[i]);
  });
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

bool constant(const Planes<float>& planes) {
  const float first = planes.values[planes.first];
  bool same = true;
  planes.for_each([&](std::span<const float> plane) {
    for (const float value : plane) same &= value == first;
  });
  return same;
}

Moments measure(const Planes<float>& planes) {
  // Rounding would leave a constant channel a tiny deviation, and dividing by it noise.
  if (constant(planes)) return {planes.values[planes.first], 0};
  const auto n = static_cast<double>(planes.count());
  const double mean = fixed_order_sum(planes, [](float x) { return static_cast<double>(x); }) / n;
  const double spread = fixed_order_sum(
      planes, [mean](float x) { return (static_cast<double>(x) - mean) * (x - mean); });
  return {mean, std::sqrt(spread / n)};
}

}  // namespace

int64_t channels_of(const Shape& shape) {
  return shape.size() == 3 ? shape[0] : 1;
}

Normalization measure_normalization(const Dataset& dataset) {
  const auto channels = static_cast<size_t>(channels_of(dataset.shape));
  const auto stride = static_cast<size_t>(elements(dataset.shape));
  const size_t plane = stride / channels;
  Normalization result;
  for (size_t channel = 0; channel < channels; ++channel) {
    const auto [mean, deviation] = std::visit(
        [&](const auto& values) {
          return measure(Planes<std::remove_cvref_t<decltype(values[0])>>{values, channel * plane,
                                                                          plane, stride});
        },
        dataset.values);
    result.mean.push_back(static_cast<float>(mean));
    const auto rounded = static_cast<float>(deviation);
    result.deviation.push_back(rounded > 0 ? rounded : 1.0F);
  }
  return result;
}

}  // namespace lockstep::data
