// A *tap* is one weight of a filter: an in channel, a row and a column. Its gradient is the sum
// over pixels of dy times the input that lies there, which a copy of the input with its padding
// makes a constant distance away. Eight taps are summed at a time, for eight out channels each:
// over a sample's pixels in T, over samples in doubles.
#include "kernels/thin_convolution.h"

#include "kernels/lanes.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kTapsAtOnce = 8;

struct Padded {
  explicit Padded(const ConvShape& shape)
      : height(shape.in_height + 2 * shape.padding),
        width(shape.in_width + 2 * shape.padding),
        sample(shape.in_channels * height * width) {}

  int64_t height;
  int64_t width;
  int64_t sample;  ///< numbers of one
};

template <typename T>
void pad(const ConvShape& shape, const Padded& padded, const T* x, T* copy) {
#pragma omp parallel for
  for (int64_t image = 0; image < shape.samples * shape.in_channels; ++image) {
    T* to = copy + image * padded.height * padded.width;
    const T* from = x + image * shape.in_height * shape.in_width;
    for (int64_t i = 0; i < padded.height * padded.width; ++i) to[i] = 0;
    for (int64_t row = 0; row < shape.in_height; ++row)
      for (int64_t column = 0; column < shape.in_width; ++column)
        to[(row + shape.padding) * padded.width + column + shape.padding] =
            from[row * shape.in_width + column];
  }
}

// Where a tap's input lies, from that of the first.
int64_t distance(const ConvShape& shape, const Padded& padded, int64_t tap) {
  const int64_t area = shape.kernel * shape.kernel;
  const int64_t channel = tap / area, row = tap % area / shape.kernel, column = tap % shape.kernel;
  return (channel * padded.height + row) * padded.width + column;
}

template <typename T>
[[gnu::always_inline]] inline void add_sample(const ConvShape& shape, const Padded& padded,
                                              const T* x, const T* dy, const int64_t* distances,
                                              Lanes<double>* totals) {
  Lanes<T> sums[kTapsAtOnce] = {};
  for (int64_t row = 0; row < shape.out_height(); ++row) {
    const T* from = x + row * shape.stride * padded.width;
    for (int64_t column = 0; column < shape.out_width();
         ++column, from += shape.stride, dy += kLanes) {
      const Lanes<T> g = load(dy);
#pragma GCC unroll 8
      for (int64_t tap = 0; tap < kTapsAtOnce; ++tap) sums[tap] += g * from[distances[tap]];
    }
  }
  for (int64_t tap = 0; tap < kTapsAtOnce; ++tap)
    totals[tap] += __builtin_convertvector(sums[tap], Lanes<double>);
}

}  // namespace

int64_t thin_scratch_count(const ConvShape& shape) {
  return shape.samples * Padded(shape).sample;
}

template <typename T>
void thin_weight_gradient(const ConvShape& shape, const T* x, const T* dy, T* weights, T* memory) {
  const Padded padded(shape);
  pad(shape, padded, x, memory);
  const int64_t blocks = shape.out_channels / kLanes;
  const int64_t taps = shape.in_channels * shape.kernel * shape.kernel;
  const int64_t image = shape.out_height() * shape.out_width() * kLanes;
#pragma omp parallel for collapse(2)
  for (int64_t block = 0; block < blocks; ++block)
    for (int64_t first = 0; first < taps; first += kTapsAtOnce) {
      const int64_t count = taps - first < kTapsAtOnce ? taps - first : kTapsAtOnce;
      int64_t distances[kTapsAtOnce] = {};
      for (int64_t i = 0; i < count; ++i) distances[i] = distance(shape, padded, first + i);
      Lanes<double> totals[kTapsAtOnce] = {};
      for (int64_t sample = 0; sample < shape.samples; ++sample)
        add_sample(shape, padded, memory + sample * padded.sample,
                   dy + (sample * blocks + block) * image, distances, totals);
      for (int64_t i = 0; i < count; ++i)
        for (int64_t lane = 0; lane < kLanes; ++lane)
          weights[(block * kLanes + lane) * taps + first + i] = static_cast<T>(totals[i][lane]);
    }
}

#define LOCKSTEP_FOR(T) \
  template void thin_weight_gradient(const ConvShape&, const T*, const T*, T*, T*)
LOCKSTEP_FOR(float);
LOCKSTEP_FOR(double);
#undef LOCKSTEP_FOR

}  // namespace lockstep::kernels
