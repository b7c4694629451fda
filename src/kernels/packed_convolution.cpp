// A convolution by its definition is, for each *tap* (row and column of the filters), a product of
// matrices, pixels x in channels times in channels x out channels. So that many pixels are
// multiplied at a time also where rows are short, images are first *packed*, in groups of samples:
//
//     [group][block][row][phase][column][sample of the group][8]
//
// with columns of zeros for padding. With a stride s, the columns 0, s, 2s, ... are *phase* 0,
// 1, s + 1, ... phase 1, and so on, so that a tap finds the pixels it lies on one after another. A
// *target* is a row of results (or of every s-th one, for the input's gradient), or a single pixel
// where many taps lie on padding: then those are skipped.
//
// Filters are [pair of blocks of out channels][block of in channels][tap][8][16]. Sums always run
// in one order, whatever the number of threads: over blocks, taps, channels of the block; for the
// input's gradient some blocks each are summed, then added. oneDNN's kernels for AVX2 add in the
// same order, so that a model gets the same bits from both.
#include "kernels/packed_convolution.h"

#include "kernels/packed_filters.h"
#include "kernels/packed_images.h"
#include "kernels/packed_targets.h"
#include "kernels/products.h"
#include "kernels/threads.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kRowsOfResults = 96;  // that are computed at a time

// How many blocks the input's gradient sums before it adds them to others: as many as oneDNN.
int64_t blocks_at_once(const ConvShape& s) {
  if (s.kernel == 1) return s.out_channels / kLanes;
  return s.out_width() <= 14 ? 4 : 2;
}

// Some pairs of blocks of a group's results.
struct Part {
  int64_t group;
  int64_t first_block;
  int64_t blocks;
};

// Copies a target's results from [block][column][sample of the group][8].
template <typename T>
void unpack(const Packing& p, const Images& to, const Part& part, const Target& target,
            int64_t begin, int64_t rows, const T* results, T* y) {
  for (int64_t block = 0; block < part.blocks; ++block) {
    const T* from = results + block * kRowsOfResults * kLanes;
    int64_t column = begin / p.group, i = begin % p.group;
    for (int64_t row = 0; row < rows; ++row, from += kLanes) {
      const int64_t sample = part.group * p.group + i;
      if (sample < p.samples)
        copy_pixel(from, y + ((sample * to.blocks + part.first_block + block) * to.pixels() +
                              target.pixel + column * target.step) *
                                 kLanes);
      if (++i == p.group) {
        i = 0;
        ++column;
      }
    }
  }
}

template <typename T>
void gather_part(const Packing& p, const Images& to, const Targets& of, int64_t at_once,
                 const Part& part, const Gather<T>& common, T* y) {
  T memory[2 * kPairsOfPart * kRowsOfResults * kLanes];
  // Then results need not be unpacked.
  const bool in_place = p.group == 1 && part.blocks % 2 == 0;
  T* const image = y + (part.group * to.blocks + part.first_block) * to.pixels() * kLanes;
  for (const Target& target : of.targets) {
    const bool direct = in_place && target.step == 1;
    const int64_t rows = target.columns * p.group;
    for (int64_t row = 0; row < rows; row += kRowsOfResults) {
      Gather<T> g = common;
      g.links = of.links.data() + target.begin;
      g.link_count = target.end - target.begin;
      g.results = direct ? image + (target.pixel + row) * kLanes : memory;
      g.second = (direct ? to.pixels() : kRowsOfResults) * kLanes;
      g.rows = std::min(kRowsOfResults, rows - row);
      for (int64_t block = 0; block < p.of.blocks; block += at_once) {
        g.source = common.source + block * g.block_stride + row * kLanes;
        g.filters = common.filters + block * g.taps * kLanes * kPair;
        g.blocks = std::min(at_once, p.of.blocks - block);
        g.sum = block == 0 ? Sum::begins : Sum::goes_on;
        products<T>().gather(g);
      }
      if (!direct) unpack(p, to, part, target, row, g.rows, memory, y);
    }
  }
}

// A convolution in one of its directions.
struct Direction {
  ConvShape shape;
  Weights kind;
  Packing packing;
  Images results;
  Targets targets;
  int64_t blocks_at_once;
};

Direction forward_direction(const ConvShape& s) {
  const Packing packing = forward_packing(s);
  return {
      s, Weights::plain, packing, results_of(s), forward_targets(s, packing), packing.of.blocks};
}
Direction backward_direction(const ConvShape& s) {
  const Packing packing = backward_packing(s);
  return {s,
          Weights::transposed,
          packing,
          inputs_of(s),
          backward_targets(s, packing),
          blocks_at_once(s)};
}

bool holds_filters(const Packing& packing) {
  return packing.groups() > 1;
}

int64_t scratch_of(const Direction& d) {
  const int64_t filters = thread_filters(d.shape, d.kind) * omp_get_max_threads();
  return d.packing.count() + (holds_filters(d.packing) ? 0 : filters);
}

// `filters` are weights if filters are not held.
template <typename T>
void gather_all(const Direction& d, const T* x, const T* filters, T* y, T* memory) {
  const Packing& p = d.packing;
  const T* const packed = pack(p, x, memory);
  T* const threads_memory = memory + p.count();
#pragma omp parallel for collapse(2)
  for (int64_t group = 0; group < p.groups(); ++group)
    for (int64_t first = 0; first < d.results.blocks; first += 2 * kPairsOfPart) {
      const Part part = {group, first, std::min(2 * kPairsOfPart, d.results.blocks - first)};
      Gather<T> common = {};
      common.source = packed + group * p.group_stride();
      common.block_stride = p.block_stride();
      common.filter_stride = pair_filters(d.shape, d.kind);
      common.filters = filters + first / 2 * common.filter_stride;
      common.taps = d.shape.kernel * d.shape.kernel;
      common.pairs = divide_up(part.blocks, 2);
      if (!holds_filters(p)) {
        T* const own = threads_memory + omp_get_thread_num() * thread_filters(d.shape, d.kind);
        for (int64_t pair = 0; pair < common.pairs; ++pair)
          pack_filters(d.shape, d.kind, (first + 2 * pair) * kLanes, filters,
                       own + pair * common.filter_stride);
        common.filters = own;
      }
      gather_part(p, d.results, d.targets, d.blocks_at_once, part, common, y);
    }
}

}  // namespace

int64_t packed_filter_count(const ConvShape& s, Weights kind) {
  const int64_t in = kind == Weights::plain ? s.in_channels : s.out_channels;
  const int64_t out = kind == Weights::plain ? s.out_channels : s.in_channels;
  return divide_up(out, kPair) * kPair * in * s.kernel * s.kernel;
}

bool packed_holds_filters(const ConvShape& shape, Weights kind) {
  const ConvShape s = simplified(shape);
  return holds_filters(kind == Weights::plain ? forward_packing(s) : backward_packing(s));
}

template <typename T>
void packed_filters(const ConvShape& s, Weights kind, const T* weights, T* filters) {
#pragma omp parallel for
  for (int64_t first = 0; first < outs_of(s, kind); first += kPair)
    pack_filters(s, kind, first, weights, filters + first / kPair * pair_filters(s, kind));
}

int64_t packed_scratch_count(const ConvShape& shape) {
  const ConvShape s = simplified(shape);
  return std::max(taken_count(shape) +
                      std::max(scratch_of(forward_direction(s)), scratch_of(backward_direction(s))),
                  packed_weight_gradient_scratch_count(shape));
}

template <typename T>
void packed_convolve(const ConvShape& shape, const T* x, const T* filters, T* y, T* memory) {
  if (skips_pixels(shape)) x = take_pixels(shape, x, memory);
  gather_all(forward_direction(simplified(shape)), x, filters, y, memory + taken_count(shape));
}

template <typename T>
void packed_input_gradient(const ConvShape& shape, const T* dy, const T* filters, T* dx,
                           T* memory) {
  gather_all(backward_direction(simplified(shape)), dy, filters, skips_pixels(shape) ? memory : dx,
             memory + taken_count(shape));
  if (skips_pixels(shape)) spread_pixels(shape, memory, dx);
}

#define LOCKSTEP_FOR(T)                                                        \
  template void packed_filters(const ConvShape&, Weights, const T*, T*);       \
  template void packed_convolve(const ConvShape&, const T*, const T*, T*, T*); \
  template void packed_input_gradient(const ConvShape&, const T*, const T*, T*, T*)
LOCKSTEP_FOR(float);
LOCKSTEP_FOR(double);
#undef LOCKSTEP_FOR

}  // namespace lockstep::kernels
