#pragma once

#include <algorithm>
#include <vector>

#include "kernels/conv_shape.h"
#include "kernels/lanes.h"
#include "kernels/products.h"

/// How images are packed, in the words of packed_convolution.cpp.
namespace lockstep::kernels {
namespace {

constexpr int64_t kRowsOfGroup = 64;        ///< pixels, at least, if there are as many
constexpr int64_t kRowsOfTarget = 8;        ///< the same
constexpr int64_t kSamplesOfGroup = 14;     ///< the same, to skip padding
constexpr int64_t kMostPacked = 256 << 10;  ///< numbers of such a group

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

  Packing with_samples(int64_t count) const {
    Packing packing = *this;
    packing.samples = count;
    return packing;
  }
  int64_t groups() const { return divide_up(samples, group); }
  int64_t column_stride() const { return group * kLanes; }
  int64_t phase_stride() const { return columns * column_stride(); }
  int64_t row_stride() const { return phases * phase_stride(); }
  int64_t block_stride() const { return of.height * row_stride(); }
  int64_t group_stride() const { return of.blocks * block_stride(); }
  int64_t count() const { return groups() * group_stride(); }
  /// A blocked image as it is.
  bool changes_nothing() const { return keeps_rows() && left == 0 && columns == of.width; }
  /// A row is one pixel, before and after.
  bool changes_no_row() const { return of.width == 1 && columns == 1 && phases == 1 && left == 0; }
  /// The columns of an image's row stay together.
  bool keeps_rows() const { return group == 1 && phases == 1; }
};

// Whether so many taps lie on padding beside rows that it is worth packing more samples together to
// skip those: then there are enough rows at each of the columns whose taps differ.
inline bool has_wide_padding(const ConvShape& s) {
  constexpr double kWorthIt = 0.06;
  int64_t outside = 0;
  for (int64_t column = 0; column < s.out_width(); ++column) {
    const int64_t first = column * s.stride - s.padding;
    outside += std::clamp<int64_t>(-first, 0, s.kernel) +
               std::clamp<int64_t>(first + s.kernel - s.in_width, 0, s.kernel);
  }
  return static_cast<double>(outside) >= kWorthIt * static_cast<double>(s.out_width() * s.kernel);
}

inline int64_t group_of(const ConvShape& s, const Images& targets) {
  if (s.kernel == 1 && targets.width >= kRowsOfTarget) return 1;  // then nothing need be packed
  int64_t enough =
      std::max(divide_up(kRowsOfGroup, targets.pixels()), divide_up(kRowsOfTarget, targets.width));
  const int64_t size = std::max(s.input_size(), s.result_size());
  if (has_wide_padding(s) && size * kSamplesOfGroup <= kMostPacked)
    enough = std::max(enough, kSamplesOfGroup);
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

inline void clear_pixel(float* to) {
  std::fill_n(to, kLanes, 0.0F);
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
inline void pack_row(const Packing& p, const Inside& inside, const float* from, float* to) {
  from += inside.first * kLanes;
  if (p.keeps_rows()) {
    std::fill_n(to, inside.begin * kLanes, 0.0F);
    std::copy_n(from, (inside.end - inside.begin) * kLanes, to + inside.begin * kLanes);
    std::fill(to + inside.end * kLanes, to + p.columns * kLanes, 0.0F);
    return;
  }
  const int64_t stride = p.column_stride();
  for (int64_t column = 0; column < inside.begin; ++column) clear_pixel(to + column * stride);
  products<float>().copy({.from = from,
                          .from_spacing = p.phases * kLanes,
                          .to = to + inside.begin * stride,
                          .to_spacing = stride,
                          .count = inside.end - inside.begin});
  for (int64_t column = inside.end; column < p.columns; ++column) clear_pixel(to + column * stride);
}

// One block of a sample; without a sample, zeros.
inline void pack_block(const Packing& p, const std::vector<Inside>& of_phases, const float* from,
                       float* to) {
  if (from != nullptr && p.changes_no_row())
    return products<float>().copy({.from = from,
                                   .from_spacing = kLanes,
                                   .to = to,
                                   .to_spacing = p.row_stride(),
                                   .count = p.of.height});
  for (int64_t row = 0; row < p.of.height; ++row)
    for (const Inside& inside : of_phases) {
      if (from != nullptr)
        pack_row(p, inside, from + row * p.of.width * kLanes, to);
      else
        for (int64_t column = 0; column < p.columns; ++column)
          clear_pixel(to + column * p.column_stride());
      to += p.phase_stride();
    }
}

// Returns where the packed images are: `memory`, unless x need not be packed.
inline const float* pack(const Packing& p, const float* x, float* memory) {
  if (p.changes_nothing()) return x;
  std::vector<Inside> of_phases;
  for (int64_t phase = 0; phase < p.phases; ++phase) of_phases.emplace_back(p, phase);
#pragma omp parallel for collapse(2)
  for (int64_t group = 0; group < p.groups(); ++group)
    for (int64_t block = 0; block < p.of.blocks; ++block)
      for (int64_t i = 0; i < p.group; ++i) {
        const int64_t sample = group * p.group + i;
        const float* const from = x + (sample * p.of.blocks + block) * p.of.pixels() * kLanes;
        pack_block(p, of_phases, sample < p.samples ? from : nullptr,
                   memory + group * p.group_stride() + block * p.block_stride() + i * kLanes);
      }
  return memory;
}

// Without the pixels that are skipped.
inline const float* take_pixels(const ConvShape& s, const float* x, float* small) {
  const int64_t step = s.stride * kLanes;
  const int64_t ahead = 4 * step * s.in_width;
#pragma omp parallel for
  for (int64_t image = 0; image < s.samples * s.in_channels / kLanes; ++image)
    for (int64_t row = 0; row < s.out_height(); ++row) {
      const float* from = x + (image * s.in_height + row * s.stride) * s.in_width * kLanes;
      // The processor does not foresee that rows are skipped.
      for (int64_t column = 0; column < s.out_width(); ++column)
        __builtin_prefetch(from + ahead + column * step);
      products<float>().copy({.from = from,
                              .from_spacing = step,
                              .to = small + (image * s.out_height() + row) * s.out_width() * kLanes,
                              .to_spacing = kLanes,
                              .count = s.out_width()});
    }
  return small;
}

// The reverse, with zeros where pixels are skipped.
inline void spread_pixels(const ConvShape& s, const float* small, float* x) {
#pragma omp parallel for
  for (int64_t image = 0; image < s.samples * s.in_channels / kLanes; ++image)
    for (int64_t row = 0; row < s.in_height; ++row) {
      float* const to = x + (image * s.in_height + row) * s.in_width * kLanes;
      std::fill_n(to, s.in_width * kLanes, 0.0F);
      if (row % s.stride != 0) continue;
      products<float>().copy(
          {.from = small + (image * s.out_height() + row / s.stride) * s.out_width() * kLanes,
           .from_spacing = kLanes,
           .to = to,
           .to_spacing = s.stride * kLanes,
           .count = s.out_width()});
    }
}

inline int64_t taken_count(const ConvShape& s) {
  return skips_pixels(s) ? s.samples * s.in_channels * s.out_height() * s.out_width() : 0;
}

}  // namespace
}  // namespace lockstep::kernels
