// A *tap* is one weight of a filter: an in channel, a row and a column. Its gradient is the sum
// over pixels of dy times the input that lies there, which a copy of the input with its padding
// makes a constant distance away: over a sample's pixels in T, over samples in doubles.
#include "kernels/thin_convolution.h"

#include <algorithm>
#include <vector>

#include "kernels/lanes.h"
#include "kernels/products.h"
#include "kernels/threads.h"

namespace lockstep::kernels {
namespace {

struct Padded {
  explicit Padded(const ConvShape& shape)
      : height(shape.in_height + 2 * shape.padding),
        width(shape.in_width + 2 * shape.padding),
        sample(shape.in_channels * height * width) {}

  int64_t height;
  int64_t width;
  int64_t sample;  ///< numbers of one
};

// As many as stay in the cache.
int64_t samples_padded_at_once(const ConvShape& shape) {
  constexpr int64_t kEnough = 64 << 10;
  return std::min(shape.samples, divide_up(kEnough, Padded(shape).sample + shape.result_size()));
}

// Returns where the padded images are: `copy`, unless there is no padding.
template <typename T>
const T* pad(const ConvShape& shape, const Padded& padded, const T* x, T* copy) {
  if (shape.padding == 0) return x;
#pragma omp parallel for
  for (int64_t image = 0; image < shape.samples * shape.in_channels; ++image) {
    const T* from = x + image * shape.in_height * shape.in_width;
    T* to = copy + image * padded.height * padded.width;
    to = std::fill_n(to, shape.padding * padded.width, T(0));
    for (int64_t row = 0; row < shape.in_height; ++row, from += shape.in_width) {
      to = std::fill_n(to, shape.padding, T(0));
      to = std::copy_n(from, shape.in_width, to);
      to = std::fill_n(to, shape.padding, T(0));
    }
    std::fill_n(to, shape.padding * padded.width, T(0));
  }
  return copy;
}

// Where each strip begins in a padded image.
std::vector<int64_t> strip_offsets(const ConvShape& shape, const Padded& padded) {
  std::vector<int64_t> offsets;
  for (int64_t channel = 0; channel < shape.in_channels; ++channel)
    for (int64_t row = 0; row < shape.kernel; ++row)
      offsets.push_back((channel * padded.height + row) * padded.width);
  return offsets;
}

}  // namespace

int64_t thin_scratch_count(const ConvShape& shape) {
  return samples_padded_at_once(shape) * Padded(shape).sample;
}

template <typename T>
void thin_weight_gradient(const ConvShape& shape, const T* x, const T* dy, T* weights, T* memory) {
  const Padded padded(shape);
  const std::vector<int64_t> offsets = strip_offsets(shape, padded);
  const auto strips = static_cast<int64_t>(offsets.size());
  const int64_t taps = strips * shape.kernel;
  const int64_t pairs = divide_up(shape.out_channels, kPair);
  const int64_t block = shape.out_height() * shape.out_width() * kLanes;
  const int64_t parts = std::min(strips, divide_up(omp_get_max_threads(), pairs));
  std::vector<double> totals(static_cast<size_t>(pairs * taps * kPair));

  const int64_t at_once = samples_padded_at_once(shape);
  for (int64_t first = 0; first < shape.samples; first += at_once) {
    const ConvShape some = shape.with_samples(std::min(at_once, shape.samples - first));
    const T* const images = pad(some, padded, x + first * shape.input_size(), memory);
#pragma omp parallel for collapse(2)
    for (int64_t pair = 0; pair < pairs; ++pair)
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t begin = strips * part / parts, end = strips * (part + 1) / parts;
        for (int64_t sample = 0; sample < some.samples; ++sample)
          products<T>().strips(
              {.x = images + sample * padded.sample,
               .offsets = offsets.data() + begin,
               .count = end - begin,
               .width = shape.kernel,
               .x_spacing = shape.stride,
               .row_stride = shape.stride * padded.width,
               .dy = dy + (first + sample) * shape.result_size() + 2 * pair * block,
               .second = (pair + 1) * kPair <= shape.out_channels ? block : 0,
               .rows = shape.out_height(),
               .columns = shape.out_width(),
               .totals = totals.data() + (pair * taps + begin * shape.kernel) * kPair});
      }
  }
  for (int64_t channel = 0; channel < shape.out_channels; ++channel)
    for (int64_t tap = 0; tap < taps; ++tap)
      weights[channel * taps + tap] = static_cast<T>(
          totals[static_cast<size_t>((channel / kPair * taps + tap) * kPair + channel % kPair)]);
}

#define LOCKSTEP_FOR(T) \
  template void thin_weight_gradient(const ConvShape&, const T*, const T*, T*, T*)
LOCKSTEP_FOR(float);
LOCKSTEP_FOR(double);
#undef LOCKSTEP_FOR

}  // namespace lockstep::kernels
