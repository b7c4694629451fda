#include "data/augment.h"

#include <algorithm>
#include <cstdlib>

#include "device/random.h"

namespace lockstep::data {

Change draw_change(const Augment& augment, uint64_t seed, int64_t epoch, int64_t sample) {
  RandomStream stream(Purpose::augment, seed, epoch, sample);
  Change change;
  if (augment.flip) change.flip = stream.below(2) == 1;
  if (augment.shift > 0) {
    const auto steps = static_cast<uint64_t>(2 * augment.shift + 1);
    change.right = static_cast<int64_t>(stream.below(steps)) - augment.shift;
    change.down = static_cast<int64_t>(stream.below(steps)) - augment.shift;
  }
  return change;
}

template <typename T>
void copy_changed(const Change& change, const Shape& shape, const T* from, T* to) {
  const int64_t rows = shape[0] * shape[1];
  const int64_t height = shape[1];
  const int64_t width = shape[2];
  const int64_t kept = width - std::abs(change.right);
  const int64_t start = std::max<int64_t>(0, change.right);    // of what is kept, in `to`
  const int64_t source = std::max<int64_t>(0, -change.right);  // and in the mirrored row
  for (int64_t row = 0; row < rows; ++row, to += width) {
    const int64_t y = row % height - change.down;
    if (y < 0 || y >= height) {
      std::fill_n(to, width, T{0});
      continue;
    }
    const T* line = from + (row - change.down) * width;
    std::fill_n(to, start, T{0});
    if (change.flip)
      std::reverse_copy(line + width - source - kept, line + width - source, to + start);
    else
      std::copy_n(line + source, kept, to + start);
    std::fill_n(to + start + kept, width - start - kept, T{0});
  }
}

template void copy_changed(const Change&, const Shape&, const uint8_t*, uint8_t*);
template void copy_changed(const Change&, const Shape&, const float*, float*);

}  // namespace lockstep::data
