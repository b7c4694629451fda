#pragma once

#include <vector>

#include "kernels/packed_images.h"
#include "kernels/products.h"

/// Which inputs make which results, in the words of packed_convolution.cpp.
namespace lockstep::kernels {
namespace {

// Pixels of the result that are computed together, with the links of all of them.
struct Target {
  int64_t pixel;  ///< the first
  int64_t step;   ///< to the next
  int64_t columns;
  int64_t begin;  ///< of its links
  int64_t end;
};

struct Targets {
  std::vector<Link> links;
  std::vector<Target> targets;

  void add(int64_t pixel, int64_t step, int64_t columns, std::vector<Link> with) {
    const auto begin = static_cast<int64_t>(links.size());
    links.insert(links.end(), with.begin(), with.end());
    targets.push_back({pixel, step, columns, begin, static_cast<int64_t>(links.size())});
  }
};

// Whether taps that lie on padding are worth skipping: if they are most of them, or if enough
// samples of one pixel are multiplied at a time.
inline bool targets_are_pixels(const ConvShape& s, const Packing& p) {
  return s.is_smaller_than_filters() &&
         (p.group >= kLanes || 2 * std::min(s.in_height, s.in_width) <= s.kernel);
}

inline Targets forward_targets(const ConvShape& s, const Packing& p) {
  Targets of;
  const bool by_pixel = targets_are_pixels(s, p);
  const int64_t columns = by_pixel ? 1 : s.out_width();
  for (int64_t row = 0; row < s.out_height(); ++row)
    for (int64_t column = 0; column < s.out_width(); column += columns) {
      std::vector<Link> links;
      for (int64_t tap = 0; tap < s.kernel * s.kernel; ++tap) {
        const int64_t y = row * s.stride + tap / s.kernel - s.padding, kx = tap % s.kernel;
        const int64_t x = column * s.stride + kx - s.padding;
        if (y < 0 || y >= s.in_height || (by_pixel && (x < 0 || x >= s.in_width))) continue;
        links.push_back({y * p.row_stride() + kx % s.stride * p.phase_stride() +
                             (column + kx / s.stride) * p.column_stride(),
                         tap});
      }
      of.add(row * s.out_width() + column, 1, columns, links);
    }
  return of;
}

inline Targets backward_targets(const ConvShape& s, const Packing& p) {
  Targets of;
  const bool by_pixel = targets_are_pixels(s, p);
  for (int64_t row = 0; row < s.in_height; ++row)
    for (int64_t first = 0; first < (by_pixel ? s.in_width : std::min(s.stride, s.in_width));
         ++first) {
      const int64_t columns = by_pixel ? 1 : divide_up(s.in_width - first, s.stride);
      const int64_t from_y = row + s.padding, from_x = first + s.padding;
      std::vector<Link> links;
      for (int64_t tap = 0; tap < s.kernel * s.kernel; ++tap) {
        const int64_t ky = tap / s.kernel, kx = tap % s.kernel;
        if ((from_y - ky) % s.stride != 0 || (from_x - kx) % s.stride != 0) continue;
        const int64_t y = (from_y - ky) / s.stride;
        const int64_t x = from_x / s.stride - kx / s.stride;
        if (from_y < ky || y >= s.out_height() || (by_pixel && (x < 0 || x >= s.out_width())))
          continue;
        links.push_back({y * p.row_stride() + (x + p.left) * p.column_stride(), tap});
      }
      of.add(row * s.in_width + first, s.stride, columns, links);
    }
  return of;
}

}  // namespace
}  // namespace lockstep::kernels
