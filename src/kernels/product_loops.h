#pragma once

#include "kernels/pair.h"
#include "kernels/products.h"

/// The loops behind products.h, for the processor that the including file is compiled for. They use
/// nothing of the standard library, which the linker might then use for other processors.
namespace lockstep::kernels {
namespace {

// How many sums are in registers at a time, which changes no bits: kMostRows of each of kMostPairs,
// or kMostRowsOfOne of one pair; half as many where chains are added up in registers, which is
// worth it for those of fewer than kLongChain taps of blocks; kInsAtOnce in channels of each;
// kMostTaps of kMostStrips. (Sanitizers' code for the larger numbers takes minutes to compile.)
constexpr int64_t kLongChain = 4;
#if defined(__AVX512F__) && !defined(LOCKSTEP_SANITIZED)
constexpr int64_t kMostPairs = 2;
constexpr int64_t kMostRows = 14;
constexpr int64_t kMostRowsOfOne = 24;
constexpr int64_t kInsAtOnce = kLanes;
constexpr int64_t kMostTaps = 28;
constexpr int64_t kMostStrips = 9;
#else
constexpr int64_t kMostPairs = 1;
constexpr int64_t kMostRows = 6;
constexpr int64_t kMostRowsOfOne = 6;
constexpr int64_t kInsAtOnce = kLanes / 2;
constexpr int64_t kMostTaps = 6;
constexpr int64_t kMostStrips = 6;
#endif

// How far ahead filters are read into the cache, in numbers.
constexpr int64_t kFiltersAhead = 48 * kPair;

// Makes the compiler compute a pointer once. Otherwise it leaves the addition to each instruction
// that uses it, which the processor then splits in two.
template <typename T>
[[gnu::always_inline]] inline void keep_in_register(const T*& pointer) {
  asm("" : "+r"(pointer));
}

template <int64_t kPairs, int64_t kRows, typename T>
using RowSums = Pair<T>[kRows][kPairs];

// Some blocks of in channels. (What changes between calls is not written into a copy of the Gather:
// wide loads of what was just written piece by piece wait until all stores before have ended.)
struct Blocks {
  int64_t begin;
  int64_t count;
};

template <int64_t kPairs, int64_t kRows, typename T>
[[gnu::always_inline]] inline void add_blocks(const Gather<T>& g, int64_t first_pair, int64_t row,
                                              Blocks blocks, RowSums<kPairs, kRows, T>& sums) {
  const T* block_source = g.source + blocks.begin * g.block_stride + row * kLanes;
  const T* block_filters =
      g.filters + first_pair * g.filter_stride + blocks.begin * g.taps * kLanes * kPair;
  for (int64_t block = 0; block < blocks.count; ++block) {
    for (const Link* link = g.links; link != g.links + g.link_count; ++link) {
      const T* from = block_source + link->offset;
      keep_in_register(from);
      const T* of_pair[kPairs];
#pragma GCC unroll 2
      for (int64_t pair = 0; pair < kPairs; ++pair)
        of_pair[pair] = block_filters + link->tap * kLanes * kPair + pair * g.filter_stride;
#pragma GCC unroll 8
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        Pair<T> filters[kPairs];
#pragma GCC unroll 2
        for (int64_t pair = 0; pair < kPairs; ++pair) {
          filters[pair] = load_pair(of_pair[pair] + lane * kPair);
          __builtin_prefetch(of_pair[pair] + lane * kPair + kFiltersAhead);
        }
#pragma GCC unroll 24
        for (int64_t i = 0; i < kRows; ++i)
#pragma GCC unroll 2
          for (int64_t pair = 0; pair < kPairs; ++pair)
            sums[i][pair].add_product(filters[pair], from[i * kLanes + lane]);
      }
    }
    block_source += g.block_stride;
    block_filters += g.taps * kLanes * kPair;
  }
}

// (What is in `g` is read once: the compiler takes each store for one that may change it.)
template <bool kGoesOn, int64_t kPairs, int64_t kRows, typename T>
[[gnu::always_inline]] inline void store_some_sums(const Gather<T>& g, int64_t first_pair,
                                                   int64_t row, RowSums<kPairs, kRows, T>& sums) {
  const int64_t second = g.second, spacing = g.spacing;
  T* of_pair = g.results + 2 * first_pair * second + row * spacing;
#pragma GCC unroll 2
  for (int64_t pair = 0; pair < kPairs; ++pair, of_pair += 2 * second) {
    T* first = of_pair;
#pragma GCC unroll 24
    for (int64_t i = 0; i < kRows; ++i, first += spacing) {
      if constexpr (kGoesOn) sums[i][pair].add(load_pair(first, first + second));
      store_pair(first, first + second, sums[i][pair]);
    }
  }
}

template <int64_t kPairs, int64_t kRows, typename T>
[[gnu::always_inline]] inline void store_sums(const Gather<T>& g, int64_t first_pair, int64_t row,
                                              Sum sum, RowSums<kPairs, kRows, T>& sums) {
  sum == Sum::begins ? store_some_sums<false, kPairs, kRows>(g, first_pair, row, sums)
                     : store_some_sums<true, kPairs, kRows>(g, first_pair, row, sums);
}

// The blocks that are left from `first` on, at most a chain of them.
template <typename T>
[[gnu::always_inline]] inline Blocks chain_from(const Gather<T>& g, int64_t first) {
  return {first, g.blocks - first < g.chain ? g.blocks - first : g.chain};
}

template <bool kChains, int64_t kPairs, int64_t kRows, typename T>
void gather_rows(const Gather<T>& g, Blocks blocks, int64_t pair, int64_t row) {
  RowSums<kPairs, kRows, T> totals = {};
  add_blocks<kPairs, kRows>(g, pair, row, blocks, totals);
  if constexpr (kChains)
    for (int64_t first = g.chain; first < g.blocks; first += g.chain) {
      RowSums<kPairs, kRows, T> sums = {};
      add_blocks<kPairs, kRows>(g, pair, row, chain_from(g, first), sums);
#pragma GCC unroll 24
      for (int64_t i = 0; i < kRows; ++i)
#pragma GCC unroll 2
        for (int64_t k = 0; k < kPairs; ++k) totals[i][k].add(sums[i][k]);
    }
  store_sums<kPairs, kRows>(g, pair, row, blocks.begin == 0 ? Sum::begins : Sum::goes_on, totals);
}

template <bool kChains, int64_t kPairs, int64_t kRows, typename T>
void gather_some_rows(const Gather<T>& g, Blocks blocks, int64_t pair, int64_t row, int64_t rows) {
  if constexpr (kRows > 0)
    rows == kRows ? gather_rows<kChains, kPairs, kRows>(g, blocks, pair, row)
                  : gather_some_rows<kChains, kPairs, kRows - 1>(g, blocks, pair, row, rows);
}

template <bool kChains, int64_t kPairs, int64_t kMost, typename T>
void gather_pairs(const Gather<T>& g, Blocks blocks, int64_t pair) {
  // As even as possible: few rows leave multipliers idle.
  const int64_t parts = (g.rows + kMost - 1) / kMost;
  for (int64_t part = 0, row = 0; part < parts; ++part) {
    const int64_t end = g.rows * (part + 1) / parts;
    gather_some_rows<kChains, kPairs, kMost>(g, blocks, pair, row, end - row);
    row = end;
  }
}

template <bool kChains, typename T>
void gather_all_pairs(const Gather<T>& g, Blocks blocks) {
  constexpr int64_t kPart = kChains ? 2 : 1;
  int64_t pair = 0;
  for (; pair + kMostPairs <= g.pairs; pair += kMostPairs)
    gather_pairs<kChains, kMostPairs, kMostRows / kPart>(g, blocks, pair);
  for (; pair < g.pairs; ++pair) gather_pairs<kChains, 1, kMostRowsOfOne / kPart>(g, blocks, pair);
}

template <typename T>
void gather(const Gather<T>& g) {
  if (g.chain < g.blocks && g.chain * g.link_count < kLongChain)
    return gather_all_pairs<true>(g, chain_from(g, 0));
  for (int64_t first = 0; first < g.blocks; first += g.chain)
    gather_all_pairs<false>(g, chain_from(g, first));
}

template <int64_t kPairs, typename T>
void outer_pairs(const Outer<T>& o, const T* all_dy, T* all_products) {
  for (int64_t in = 0; in < kLanes; in += kInsAtOnce) {
    T* const products = all_products + in * kPair;
    Pair<T> sums[kInsAtOnce][kPairs] = {};
    if (o.sum == Sum::goes_on)
#pragma GCC unroll 8
      for (int64_t i = 0; i < kInsAtOnce; ++i)
#pragma GCC unroll 2
        for (int64_t pair = 0; pair < kPairs; ++pair)
          sums[i][pair] = load_pair(products + pair * o.product_stride + i * kPair);
    for (const Run* run = o.runs; run != o.runs + o.run_count; ++run) {
      const T* x = o.x + run->x + in;
      const T* dy = all_dy + run->dy;
      for (int64_t row = 0; row < run->rows; ++row, x += o.x_spacing, dy += kLanes) {
        Pair<T> g[kPairs];
#pragma GCC unroll 2
        for (int64_t pair = 0; pair < kPairs; ++pair)
          g[pair] = load_pair(dy + pair * o.dy_stride, dy + pair * o.dy_stride + o.second);
#pragma GCC unroll 8
        for (int64_t i = 0; i < kInsAtOnce; ++i)
#pragma GCC unroll 2
          for (int64_t pair = 0; pair < kPairs; ++pair) sums[i][pair].add_product(g[pair], x[i]);
      }
    }
#pragma GCC unroll 8
    for (int64_t i = 0; i < kInsAtOnce; ++i)
#pragma GCC unroll 2
      for (int64_t pair = 0; pair < kPairs; ++pair) {
        T* const to = products + pair * o.product_stride + i * kPair;
        store_pair(to, to + kLanes, sums[i][pair]);
      }
  }
}

template <typename T>
void outer(const Outer<T>& o) {
  for (int64_t pair = 0; pair < o.pairs;) {
    const int64_t pairs = o.pairs - pair < kMostPairs ? 1 : kMostPairs;
    const T* const dy = o.dy + pair * o.dy_stride;
    T* const products = o.products + pair * o.product_stride;
    pairs == 1 ? outer_pairs<1>(o, dy, products) : outer_pairs<kMostPairs>(o, dy, products);
    pair += pairs;
  }
}

template <typename T>
[[gnu::noinline]] void add_to_totals(const T* sums, int64_t count, double* totals) {
  for (int64_t i = 0; i < count; i += kLanes)
    store<double>(totals + i,
                  load(totals + i) + __builtin_convertvector(load(sums + i), Lanes<double>));
}

template <int64_t kWidth, int64_t kCount, typename T>
void add_strips(const Strips<T>& s, int64_t first) {
  Pair<T> sums[kCount][kWidth] = {};
  const T* from[kCount];
  for (int64_t i = 0; i < kCount; ++i) from[i] = s.x + s.offsets[first + i];
  const T* dy = s.dy;
  for (int64_t row = 0; row < s.rows; ++row) {
    for (int64_t column = 0; column < s.columns; ++column, dy += kLanes) {
      const Pair<T> g = load_pair(dy, dy + s.second);
#pragma GCC unroll 9
      for (int64_t i = 0; i < kCount; ++i)
#pragma GCC unroll 7
        for (int64_t tap = 0; tap < kWidth; ++tap)
          sums[i][tap].add_product(g, from[i][column * s.x_spacing + tap]);
    }
#pragma GCC unroll 9
    for (int64_t i = 0; i < kCount; ++i) from[i] += s.row_stride;
  }
  T numbers[kCount * kWidth * kPair];
#pragma GCC unroll 9
  for (int64_t i = 0; i < kCount; ++i)
#pragma GCC unroll 7
    for (int64_t tap = 0; tap < kWidth; ++tap) {
      T* const to = numbers + (i * kWidth + tap) * kPair;
      store_pair(to, to + kLanes, sums[i][tap]);
    }
  add_to_totals(numbers, kCount * kWidth * kPair, s.totals + first * kWidth * kPair);
}

template <int64_t kWidth, int64_t kCount, typename T>
void add_some_strips(const Strips<T>& s, int64_t first, int64_t count) {
  if constexpr (kCount > 0)
    count == kCount ? add_strips<kWidth, kCount>(s, first)
                    : add_some_strips<kWidth, kCount - 1>(s, first, count);
}

template <int64_t kWidth, typename T>
void strips_of(const Strips<T>& s) {
  constexpr int64_t kFit = kMostTaps / kWidth > 0 ? kMostTaps / kWidth : 1;
  constexpr int64_t kMost = kFit < kMostStrips ? kFit : kMostStrips;
  if (s.width != kWidth) {
    if constexpr (kWidth > 1) strips_of<kWidth - 1>(s);
    return;
  }
  for (int64_t first = 0; first < s.count; first += kMost)
    add_some_strips<kWidth, kMost>(s, first, s.count - first < kMost ? s.count - first : kMost);
}

template <typename T>
void strips(const Strips<T>& s) {
  strips_of<kMostStripWidth>(s);
}

// Eight times eight numbers.
[[gnu::always_inline]] inline void transpose_square(Lanes<float>* rows) {
  Lanes<float> pairs[kLanes], quads[kLanes];
  for (int64_t i = 0; i < kLanes; i += 2) {
    pairs[i] = __builtin_shufflevector(rows[i], rows[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pairs[i + 1] = __builtin_shufflevector(rows[i], rows[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int64_t i = 0; i < kLanes; i += 4)
    for (int64_t j = 0; j < 2; ++j) {
      quads[i + 2 * j] =
          __builtin_shufflevector(pairs[i + j], pairs[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      quads[i + 2 * j + 1] =
          __builtin_shufflevector(pairs[i + j], pairs[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int64_t i = 0; i < kLanes / 2; ++i) {
    rows[i] = __builtin_shufflevector(quads[i], quads[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    rows[i + 4] = __builtin_shufflevector(quads[i], quads[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

template <typename T>
void transpose(const Transposition& t, const T* from, T* to) {
  int64_t k = 0;
  if constexpr (sizeof(T) == sizeof(float))
    for (; k + kLanes <= t.count; k += kLanes)
      for (int64_t first = 0; first < kPair; first += kLanes) {
        Lanes<T> rows[kLanes];
        for (int64_t i = 0; i < kLanes; ++i) rows[i] = load(from + (first + i) * t.stride + k);
        transpose_square(rows);
        for (int64_t i = 0; i < kLanes; ++i)
          store(to + (k + i) * t.transposed_stride + first, rows[i]);
      }
  if (t.count == 1 && t.stride == 1) return store_pair(to, to + kLanes, load_pair(from));
  for (; k < t.count; ++k)
    for (int64_t i = 0; i < kPair; ++i) to[k * t.transposed_stride + i] = from[i * t.stride + k];
}

template <typename T>
void transpose_back(const Transposition& t, const T* from, T* to) {
  int64_t k = 0;
  if constexpr (sizeof(T) == sizeof(float))
    for (; k + kLanes <= t.count; k += kLanes)
      for (int64_t first = 0; first < kPair; first += kLanes) {
        Lanes<T> rows[kLanes];
        for (int64_t i = 0; i < kLanes; ++i)
          rows[i] = load(from + (k + i) * t.transposed_stride + first);
        transpose_square(rows);
        for (int64_t i = 0; i < kLanes; ++i) store(to + (first + i) * t.stride + k, rows[i]);
      }
  for (; k < t.count; ++k)
    for (int64_t i = 0; i < kPair; ++i) to[i * t.stride + k] = from[k * t.transposed_stride + i];
}

template <typename T>
void copy(const Pixels<T>& of) {
  const T* from = of.from;
  T* to = of.to;
  for (int64_t i = 0; i < of.count; ++i, from += of.from_spacing, to += of.to_spacing)
    store(to, load(from));
}

}  // namespace
}  // namespace lockstep::kernels
