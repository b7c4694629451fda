// Words: an output pixel is a weighted sum of `taps` input pixels starting at `first`; the weights
// fall off linearly from the pixel's centre (a triangle) and are integers that sum to about 2^22.
// Rows are shrunk first, then columns; both axes use the same weights, as the crop is a square.
#include <algorithm>
#include <cmath>

#include "data/image.h"

namespace lockstep::data {
namespace {

constexpr int kBits = 22;

struct Taps {
  std::vector<int64_t> first;
  std::vector<int64_t> weights;  // `count` for each output pixel
  int64_t count = 0;
};

Taps make_taps(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(scale, 1.0);
  Taps taps;
  taps.count = std::min(from, 2 * static_cast<int64_t>(std::ceil(reach)) + 1);
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto lowest = static_cast<int64_t>(std::floor(centre - reach + 0.5));
    const int64_t first = std::clamp<int64_t>(lowest, 0, from - taps.count);
    std::vector<double> weights;
    double sum = 0;
    for (int64_t t = first; t < first + taps.count; ++t) {
      const double distance = std::abs(static_cast<double>(t) + 0.5 - centre) / reach;
      weights.push_back(std::max(0.0, 1.0 - distance));
      sum += weights.back();
    }
    taps.first.push_back(first);
    for (const double weight : weights)
      taps.weights.push_back(std::llround(weight / sum * (int64_t{1} << kBits)));
  }
  return taps;
}

// The weighted sum of `taps.count` values that lie `stride` apart.
uint8_t weigh(const Taps& taps, int64_t output, const uint8_t* from, int64_t stride) {
  const int64_t* weights = taps.weights.data() + output * taps.count;
  const uint8_t* value = from + taps.first[static_cast<size_t>(output)] * stride;
  int64_t sum = int64_t{1} << (kBits - 1);
  for (int64_t t = 0; t < taps.count; ++t) sum += weights[t] * value[t * stride];
  return static_cast<uint8_t>(std::clamp<int64_t>(sum >> kBits, 0, 255));
}

}  // namespace

Image scale_to_square(const Image& image, int64_t side) {
  const int64_t crop = std::min(image.width, image.height);
  const int64_t left = (image.width - crop) / 2;
  const int64_t top = (image.height - crop) / 2;
  const int64_t channels = image.channels;
  const Taps taps = make_taps(crop, side);

  std::vector<uint8_t> narrow(static_cast<size_t>(crop * side * channels));
  for (int64_t y = 0; y < crop; ++y)
    for (int64_t x = 0; x < side; ++x)
      for (int64_t c = 0; c < channels; ++c)
        narrow[static_cast<size_t>((y * side + x) * channels + c)] =
            weigh(taps, x, image.pixels.data() + ((top + y) * image.width + left) * channels + c,
                  channels);

  Image scaled{side, side, channels,
               std::vector<uint8_t>(static_cast<size_t>(side * side * channels))};
  for (int64_t y = 0; y < side; ++y)
    for (int64_t i = 0; i < side * channels; ++i)
      scaled.pixels[static_cast<size_t>(y * side * channels + i)] =
          weigh(taps, y, narrow.data() + i, side * channels);
  return scaled;
}

}  // namespace lockstep::data
