#pragma once

#include <algorithm>

#include "kernels/conv_shape.h"
#include "kernels/lanes.h"
#include "kernels/products.h"
#include "kernels/winograd.h"

/// How filters are made of weights, in the words of packed_convolution.cpp.
namespace lockstep::kernels {
namespace {

constexpr int64_t kPairsOfPart = 2;  ///< that a thread computes at a time

// Calls visit(transposition, weights, filters) for the parts of both that are transposed at a time,
// of the pair of blocks that begins with out channel `first`: all taps of 16 out channels and one
// in channel. The pair's filters are [block][tap][8][16].
template <typename Visit>
void for_transpositions(const ConvShape& s, Weights kind, int64_t first, Visit visit) {
  const int64_t taps = s.kernel * s.kernel;
  const bool plain = kind == Weights::plain;
  const int64_t ins = plain ? s.in_channels : s.out_channels;
  const int64_t in_stride = plain ? taps : s.in_channels * taps;
  const int64_t out_stride = plain ? s.in_channels * taps : taps;
  const bool by_blocks = plain && taps == 1;  // then in channels lie together
  const Transposition t = {by_blocks ? kLanes : taps, out_stride,
                           by_blocks ? kPair : kLanes * kPair};
  for (int64_t in = 0; in < ins; in += by_blocks ? kLanes : 1)
    visit(t, first * out_stride + in * in_stride,
          (in / kLanes * taps * kLanes + in % kLanes) * kPair);
}

inline int64_t outs_of(const ConvShape& s, Weights kind) {
  return kind == Weights::plain ? s.out_channels : s.in_channels;
}

// One pair's.
inline void pack_filters(const ConvShape& s, Weights kind, int64_t first, const float* weights,
                         float* filters) {
  const Products<float> by = products<float>();
  const int64_t outs = std::min(kPair, outs_of(s, kind) - first);
  for_transpositions(s, kind, first, [&](const Transposition& t, int64_t weight, int64_t filter) {
    if (outs == kPair) return by.transpose(t, weights + weight, filters + filter);
    for (int64_t k = 0; k < t.count; ++k)
      for (int64_t i = 0; i < kPair; ++i)
        filters[filter + k * t.transposed_stride + i] =
            i < outs ? weights[weight + i * t.stride + k] : 0.0F;
  });
}

inline void unpack_filters(const ConvShape& s, int64_t first, const float* filters,
                           float* weights) {
  const Products<float> by = products<float>();
  const int64_t outs = std::min(kPair, s.out_channels - first);
  for_transpositions(
      s, Weights::plain, first, [&](const Transposition& t, int64_t weight, int64_t filter) {
        if (outs == kPair) return by.transpose_back(t, filters + filter, weights + weight);
        for (int64_t i = 0; i < outs; ++i)
          for (int64_t k = 0; k < t.count; ++k)
            weights[weight + i * t.stride + k] = filters[filter + k * t.transposed_stride + i];
      });
}

// Of one pair, in numbers.
inline int64_t pair_filters(const ConvShape& s, Weights kind) {
  return (kind == Weights::plain ? s.in_channels : s.out_channels) * s.kernel * s.kernel * kPair;
}

// The filters of some pairs for each thread.
inline int64_t thread_filters(const ConvShape& s, Weights kind) {
  return kPairsOfPart * pair_filters(s, kind);
}

}  // namespace
}  // namespace lockstep::kernels
