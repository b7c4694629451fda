#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/conv_shape.h"
#include "kernels/lanes.h"

/// How images are packed, in the words of packed_convolution.cpp.
namespace lockstep::kernels {
namespace {

constexpr int64_t kRowsOfGroup = 192;  ///< pixels, at least, if there are as many
constexpr int64_t kRowsOfTarget = 12;  ///< the same

constexpr int64_t divide_up(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}

struct Images {
  int64_t blocks;
  int64_t height;
  int64_t width;

  int64_t pixels() const { return height * width; }
};

Images inputs_of(const ConvShape& s) {
  return {s.in_channels / kLanes, s.in_height, s.in_width};
}
Images results_of(const ConvShape& s) {
  return {s.out_channels / kLanes, s.out_height(), s.out_width()};
}

// Filters of 1 x 1 skip pixels if their stride is larger; others might as well lie in one row.
inline bool skips_pixels(const ConvShape& s) {
  return s.kernel == 1 && s.padding == 0 && s.stride > 1;
}
inline ConvShape simplified(const ConvShape& s) {
  if (s.kernel != 1 || s.padding != 0) return s;
  ConvShape simple = s;
  simple.in_width = s.out_height() * s.out_width();
  simple.in_height = simple.stride = 1;
  return simple;
}

// How an image is packed: column c of phase p is the image's column c * phases + p - left.
struct Packing {
  Images of;
  int64_t samples;
  int64_t group;  ///< samples
  int64_t phases;
  int64_t columns;
  int64_t left;

  int64_t groups() const { return divide_up(samples, group); }
  int64_t column_stride() const { return group * kLanes; }
  int64_t phase_stride() const { return columns * column_stride(); }
  int64_t row_stride() const { return phases * phase_stride(); }
  int64_t block_stride() const { return of.height * row_stride(); }
  int64_t group_stride() const { return of.blocks * block_stride(); }
  int64_t count() const { return groups() * group_stride(); }
  /// A blocked image as it is.
  bool changes_nothing() const {
    return group == 1 && phases == 1 && left == 0 && columns == of.width;
  }
};

inline int64_t group_of(const ConvShape& s, const Images& targets) {
  if (s.kernel == 1 && targets.width >= kRowsOfTarget) return 1;  // then nothing need be packed
  const int64_t enough =
      std::max(divide_up(kRowsOfGroup, targets.pixels()), divide_up(kRowsOfTarget, targets.width));
  return divide_up(s.samples, divide_up(s.samples, enough));
}

[[maybe_unused]] Packing forward_packing(const ConvShape& s) {
  return {inputs_of(s),
          s.samples,
          group_of(s, results_of(s)),
          s.stride,
          s.out_width() + (s.kernel - 1) / s.stride,
          s.padding};
}

[[maybe_unused]] Packing backward_packing(const ConvShape& s) {
  const int64_t left = (s.kernel - 1) / s.stride;
  const int64_t last = (s.in_width - 1 + s.padding) / s.stride;
  return {results_of(s),
          s.samples,
          group_of(s, inputs_of(s)),
          1,
          left + std::max(last + 1, s.out_width()),
          left};
}

template <typename T>
void copy_pixel(const T* from, T* to) {
  std::memcpy(to, from, kLanes * sizeof(T));
}
template <typename T>
void clear_pixel(T* to) {
  std::fill_n(to, kLanes, T(0));
}

// The columns of a phase that lie in the image; zeros are before and behind.
struct Inside {
  Inside(const Packing& p, int64_t phase)
      : begin(std::min(p.columns, divide_up(std::max<int64_t>(0, p.left - phase), p.phases))),
        end(std::clamp(divide_up(p.of.width + p.left - phase, p.phases), begin, p.columns)),
        first(begin * p.phases + phase - p.left) {}

  int64_t begin;
  int64_t end;
  int64_t first;  ///< the image's column at `begin`
};

// One row, phase and sample of a group.
template <typename T>
void pack_row(const Packing& p, const Inside& inside, const T* from, T* to) {
  const int64_t stride = p.column_stride();
  for (int64_t column = 0; column < inside.begin; ++column) clear_pixel(to + column * stride);
  from += inside.first * kLanes;
  for (int64_t column = inside.begin; column < inside.end; ++column, from += p.phases * kLanes)
    copy_pixel(from, to + column * stride);
  for (int64_t column = inside.end; column < p.columns; ++column) clear_pixel(to + column * stride);
}

// One block and phase of a group.
template <typename T>
void pack_phase(const Packing& p, int64_t group, int64_t block, int64_t phase, const T* x, T* to) {
  const Inside inside(p, phase);
  for (int64_t i = 0; i < p.group; ++i, to += kLanes) {
    const int64_t sample = group * p.group + i;
    const T* from = x + (sample * p.of.blocks + block) * p.of.pixels() * kLanes;
    for (int64_t row = 0; row < p.of.height; ++row) {
      T* const packed = to + row * p.row_stride();
      if (sample < p.samples)
        pack_row(p, inside, from + row * p.of.width * kLanes, packed);
      else
        for (int64_t column = 0; column < p.columns; ++column)
          clear_pixel(packed + column * p.column_stride());
    }
  }
}

// Returns where the packed images are: `memory`, unless x need not be packed.
template <typename T>
const T* pack(const Packing& p, const T* x, T* memory) {
  if (p.changes_nothing()) return x;
#pragma omp parallel for collapse(2)
  for (int64_t group = 0; group < p.groups(); ++group)
    for (int64_t block = 0; block < p.of.blocks; ++block)
      for (int64_t phase = 0; phase < p.phases; ++phase)
        pack_phase(p, group, block, phase, x,
                   memory + group * p.group_stride() + block * p.block_stride() +
                       phase * p.phase_stride());
  return memory;
}

// Without the pixels that are skipped.
template <typename T>
const T* take_pixels(const ConvShape& s, const T* x, T* small) {
#pragma omp parallel for
  for (int64_t image = 0; image < s.samples * s.in_channels / kLanes; ++image)
    for (int64_t row = 0; row < s.out_height(); ++row)
      for (int64_t column = 0; column < s.out_width(); ++column)
        copy_pixel(
            x + ((image * s.in_height + row * s.stride) * s.in_width + column * s.stride) * kLanes,
            small + ((image * s.out_height() + row) * s.out_width() + column) * kLanes);
  return small;
}

// The reverse, with zeros where pixels are skipped.
template <typename T>
void spread_pixels(const ConvShape& s, const T* small, T* x) {
#pragma omp parallel for
  for (int64_t image = 0; image < s.samples * s.in_channels / kLanes; ++image)
    for (int64_t row = 0; row < s.in_height; ++row) {
      T* const to = x + (image * s.in_height + row) * s.in_width * kLanes;
      std::fill_n(to, s.in_width * kLanes, T(0));
      if (row % s.stride != 0) continue;
      const T* from = small + (image * s.out_height() + row / s.stride) * s.out_width() * kLanes;
      for (int64_t column = 0; column < s.out_width(); ++column)
        copy_pixel(from + column * kLanes, to + column * s.stride * kLanes);
    }
}

inline int64_t taken_count(const ConvShape& s) {
  return skips_pixels(s) ? s.samples * s.in_channels * s.out_height() * s.out_width() : 0;
}

}  // namespace
}  // namespace lockstep::kernels
