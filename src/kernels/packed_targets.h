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

// Whether taps that lie on padding beside rows are skipped: if they are most of them, or if enough
// samples of one pixel are multiplied at a time.
inline bool skips_padding(const ConvShape& s, const Packing& p) {
  return (p.group >= kLanes && has_wide_padding(s)) ||
         2 * std::min(s.in_height, s.in_width) <= s.kernel;
}

// The taps of a row that do not lie on padding.
struct Taps {
  int64_t begin;
  int64_t end;

  bool operator==(const Taps&) const = default;
};

// How many columns from `column` on have the same taps, of `columns`.
template <typename TapsAt>
int64_t alike_from(int64_t column, int64_t columns, TapsAt taps_at) {
  int64_t next = column + 1;
  while (next < columns && taps_at(next) == taps_at(column)) ++next;
  return next - column;
}

inline Targets forward_targets(const ConvShape& s, const Packing& p) {
  Targets of;
  const bool skips = skips_padding(s, p);
  const auto taps_at = [&](int64_t column) {
    const int64_t first = column * s.stride - s.padding;
    return skips ? Taps{std::max<int64_t>(0, -first), std::min(s.kernel, s.in_width - first)}
                 : Taps{0, s.kernel};
  };
  for (int64_t row = 0; row < s.out_height(); ++row)
    for (int64_t column = 0; column < s.out_width();) {
      const int64_t columns = alike_from(column, s.out_width(), taps_at);
      const Taps taps = taps_at(column);
      std::vector<Link> links;
      for (int64_t ky = 0; ky < s.kernel; ++ky) {
        const int64_t y = row * s.stride + ky - s.padding;
        if (y < 0 || y >= s.in_height) continue;
        for (int64_t kx = taps.begin; kx < taps.end; ++kx)
          links.push_back({y * p.row_stride() + kx % s.stride * p.phase_stride() +
                               (column + kx / s.stride) * p.column_stride(),
                           ky * s.kernel + kx});
      }
      of.add(row * s.out_width() + column, 1, columns, links);
      column += columns;
    }
  return of;
}

// The columns first, first + stride, ... of a row of inputs, which have taps in common.
inline void add_backward_row(const ConvShape& s, const Packing& p, bool skips, int64_t row,
                             int64_t first, Targets& of) {
  const int64_t from_y = row + s.padding, from_x = first + s.padding;
  const int64_t all = divide_up(s.in_width - first, s.stride);
  // Counted in strides.
  const auto taps_at = [&](int64_t column) {
    const int64_t last = from_x / s.stride + column, most = (s.kernel - 1) / s.stride + 1;
    return skips ? Taps{std::max<int64_t>(0, last - s.out_width() + 1), std::min(most, last + 1)}
                 : Taps{0, most};
  };
  for (int64_t column = 0; column < all;) {
    const int64_t columns = alike_from(column, all, taps_at);
    const Taps taps = taps_at(column);
    std::vector<Link> links;
    for (int64_t tap = 0; tap < s.kernel * s.kernel; ++tap) {
      const int64_t ky = tap / s.kernel, kx = tap % s.kernel;
      if ((from_y - ky) % s.stride != 0 || (from_x - kx) % s.stride != 0) continue;
      const int64_t y = (from_y - ky) / s.stride;
      if (from_y < ky || y >= s.out_height() || kx / s.stride < taps.begin ||
          kx / s.stride >= taps.end)
        continue;
      const int64_t x = from_x / s.stride - kx / s.stride + column;
      links.push_back({y * p.row_stride() + (x + p.left) * p.column_stride(), tap});
    }
    of.add(row * s.in_width + first + column * s.stride, s.stride, columns, links);
    column += columns;
  }
}

inline Targets backward_targets(const ConvShape& s, const Packing& p) {
  Targets of;
  const bool skips = skips_padding(s, p);
  for (int64_t row = 0; row < s.in_height; ++row)
    for (int64_t first = 0; first < std::min(s.stride, s.in_width); ++first)
      add_backward_row(s, p, skips, row, first, of);
  return of;
}

}  // namespace
}  // namespace lockstep::kernels
