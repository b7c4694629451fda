#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// The products of matrices to which convolutions come down, and what brings numbers into their
/// order. A *row* is one pixel or tile, eight channels of it lie together and those of the next row
/// follow; a *pair* is two blocks of eight out channels. They are compiled for AVX2 and for
/// AVX-512, with the same bits.

/// Where rows lie for one tap of the filters.
struct Link {
  int64_t offset;
  int64_t tap;
};

/// results[row] = the sum over in channels and links of source[row] * filters, for some pairs.
template <typename T>
struct Gather {
  const T* source;
  int64_t blocks;        ///< of in channels
  int64_t chain;         ///< blocks that are summed before their sum is added to that of others
  int64_t block_stride;  ///< from a row's block to its next one
  const Link* links;
  int64_t link_count;
  const T* filters;  ///< [block][tap][8][16]
  int64_t taps;
  T* results;
  int64_t spacing;  ///< from a row's result to the next one's
  /// From a pair's first block to its second; the next pair follows as far from it.
  int64_t second;
  int64_t rows;
  int64_t pairs;
  int64_t filter_stride;  ///< from a pair's filters to the next one's
};

enum class Sum { begins, goes_on };

/// Some rows: where x and dy begin.
struct Run {
  int64_t x;
  int64_t dy;
  int64_t rows;
};

/// products = the sum over rows of x * dy, for eight in channels and some pairs: [8][16] each; or
/// is added to what is there.
template <typename T>
struct Outer {
  const T* x;
  int64_t x_spacing;  ///< from a row of x to its next one
  const T* dy;
  int64_t second;  ///< from a pair's first block to its second
  const Run* runs;
  int64_t run_count;
  T* products;
  int64_t pairs;
  int64_t dy_stride;       ///< from a pair to the next
  int64_t product_stride;  ///< the same
  Sum sum;
};

/// totals += the sum over the pixels of one image of x * dy, for one pair and the taps of some
/// *strips*, the rows of filters: [strip][width][16]. x is plain and has room for padding.
template <typename T>
struct Strips {
  const T* x;
  const int64_t* offsets;  ///< of each strip's first tap
  int64_t count;
  int64_t width;       ///< taps of a strip, at most kMostStripWidth
  int64_t x_spacing;   ///< from a pixel's input to the next one's
  int64_t row_stride;  ///< from a row's input to the next one's
  const T* dy;
  int64_t second;  ///< from the pair's first block to its second
  int64_t rows;    ///< of the image
  int64_t columns;
  double* totals;
};

inline constexpr int64_t kMostStripWidth = 7;

/// The weights of 16 out channels: some numbers of each, `stride` apart from channel to channel; or
/// those of each channel's first number, each second, ..., `transposed_stride` apart.
struct Transposition {
  int64_t count;
  int64_t stride;
  int64_t transposed_stride;
};

/// Pixels of one block, each some numbers from the one before.
template <typename T>
struct Pixels {
  const T* from;
  int64_t from_spacing;
  T* to;
  int64_t to_spacing;
  int64_t count;
};

template <typename T>
struct Products {
  void (*gather)(const Gather<T>&);
  void (*outer)(const Outer<T>&);
  void (*strips)(const Strips<T>&);
  void (*transpose)(const Transposition&, const T* from, T* to);
  void (*transpose_back)(const Transposition&, const T* from, T* to);
  void (*copy)(const Pixels<T>&);
};

/// Those for this processor.
template <typename T>
Products<T> products();
template <>
Products<float> products();
template <>
Products<double> products();

namespace avx2 {
extern const Products<float> kProducts;
extern const Products<double> kProductsOfDoubles;
}  // namespace avx2
namespace avx512 {
extern const Products<float> kProducts;
}  // namespace avx512

}  // namespace lockstep::kernels
