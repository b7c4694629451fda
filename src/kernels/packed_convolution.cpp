// A convolution by its definition is, for each *tap* (row and column of the filters), a product of
// matrices, pixels x in channels times in channels x out channels. So that many pixels are
// multiplied at a time also where rows are short, images are first *packed*, in groups of samples:
//
//     [group][block][row][phase][column][sample of the group][8]
//
// with columns of zeros for padding. With a stride s, the columns 0, s, 2s, ... are *phase* 0,
// 1, s + 1, ... phase 1, and so on, so that a tap finds the pixels it lies on one after another. A
// *target* is a row of results (or every s-th one of a row, for the input's gradient); where many
// taps lie on padding, only columns that have the same taps, so that the others are skipped.
//
// Filters are [pair of blocks of out channels][block of in channels][tap][8][16]. Sums always run
// in one order, whatever the number of threads: over blocks, taps, channels of the block; for the
// input's gradient some blocks each are summed, then added. oneDNN's kernels for AVX2 add in the
// same order, so that a model gets the same bits from both.
#include "kernels/packed_convolution.h"

#include <span>
#include <vector>

#include "kernels/packed_filters.h"
#include "kernels/packed_images.h"
#include "kernels/packed_targets.h"
#include "kernels/packed_weight_gradient.h"
#include "kernels/products.h"
#include "kernels/threads.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kRowsOfResults = 96;  // that are computed at a time

// How many blocks the input's gradient sums before it adds them to others: as many as oneDNN.
int64_t backward_chain(const ConvShape& s) {
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
void unpack(const Packing& p, const Images& to, const Part& part, const Target& target,
            int64_t begin, int64_t rows, const float* results, float* y) {
  const int64_t sample_stride = to.blocks * to.pixels() * kLanes;
  for (int64_t block = 0; block < part.blocks; ++block) {
    const float* const from = results + block * kRowsOfResults * kLanes;
    float* const image = y + part.group * p.group * sample_stride +
                         ((part.first_block + block) * to.pixels() + target.pixel) * kLanes;
    if (p.group == 1) {
      const int64_t step = target.step * kLanes;
      products<float>().copy({.from = from,
                              .from_spacing = kLanes,
                              .to = image + begin * step,
                              .to_spacing = step,
                              .count = rows});
      continue;
    }
    for (int64_t row = begin, next = begin; row < begin + rows; row = next) {
      const int64_t column = row / p.group, i = row % p.group;
      next = std::min((column + 1) * p.group, begin + rows);
      products<float>().copy({.from = from + (row - begin) * kLanes,
                              .from_spacing = kLanes,
                              .to = image + i * sample_stride + column * target.step * kLanes,
                              .to_spacing = sample_stride,
                              .count = std::min(next - row, p.samples - part.group * p.group - i)});
    }
  }
}

// Rows of a target that are computed at a time.
struct Piece {
  Target target;
  int64_t row;
  int64_t rows;
};

std::vector<Piece> pieces_of(const Targets& of, const Packing& p) {
  std::vector<Piece> pieces;
  for (const Target& target : of.targets) {
    const int64_t rows = target.columns * p.group;
    for (int64_t row = 0; row < rows; row += kRowsOfResults)
      pieces.push_back({target, row, std::min(kRowsOfResults, rows - row)});
  }
  return pieces;
}

// So many numbers stay in the cache while all filters pass.
constexpr int64_t kEnough = 64 << 10;

// A convolution in one of its directions.
struct Direction {
  ConvShape whole;  ///< with the pixels that are skipped
  ConvShape shape;
  Weights kind;
  Packing packing;
  Images results;
  Targets targets;
  int64_t chain;  ///< of blocks
  std::vector<Piece> pieces = pieces_of(targets, packing);

  bool skips() const { return skips_pixels(whole) && whole != shape; }

  /// How many pieces of a large image are computed at a time: all of them, unless reading filters
  /// again for some of them takes less than reading images again for each part.
  int64_t pieces_at_once() const {
    const auto count = static_cast<int64_t>(pieces.size());
    const int64_t images = packing.group_stride(), tiles = divide_up(images, kEnough);
    const int64_t parts = divide_up(results.blocks, 2 * kPairsOfPart);
    const int64_t filters = parts * thread_filters(shape, kind);
    return (tiles - 1) * filters < (parts - 1) * images ? divide_up(count, tiles) : count;
  }
  bool holds_filters() const {
    return packing.groups() > 1 || pieces_at_once() < static_cast<int64_t>(pieces.size());
  }
};

Direction forward_direction(const ConvShape& whole) {
  const ConvShape s = simplified(whole);
  const Packing packing = forward_packing(s);
  return {whole,
          s,
          Weights::plain,
          packing,
          results_of(s),
          forward_targets(s, packing),
          packing.of.blocks};
}
// Long rows are computed where they belong rather than spread afterwards.
Direction backward_direction(const ConvShape& whole) {
  const bool spreads = whole.out_width() < kRowsOfTarget || !skips_pixels(whole);
  const ConvShape s = spreads ? simplified(whole) : whole;
  const Packing packing = backward_packing(s);
  return {whole,
          s,
          Weights::transposed,
          packing,
          inputs_of(s),
          backward_targets(s, packing),
          backward_chain(s)};
}

// How many samples are packed and multiplied at a time: a few groups for each thread.
int64_t samples_at_once(const Direction& d) {
  const Packing& p = d.packing;
  const int64_t groups = divide_up(kEnough, p.group_stride()) * omp_get_max_threads();
  return std::min(p.samples, p.group * groups);
}

int64_t scratch_of(const Direction& d) {
  const int64_t samples = samples_at_once(d);
  const int64_t filters = thread_filters(d.shape, d.kind) * omp_get_max_threads();
  return taken_count(d.whole.with_samples(samples)) + d.packing.with_samples(samples).count() +
         (d.holds_filters() ? 0 : filters);
}

// Some pieces of a part's results.
void gather_pieces(const Direction& d, const Packing& p, const float* packed, const float* filters,
                   const Part& part, std::span<const Piece> pieces, float* y) {
  float memory[2 * kPairsOfPart * kRowsOfResults * kLanes];
  const Images& to = d.results;
  // Then results need not be unpacked.
  const bool in_place = p.group == 1 && part.blocks % 2 == 0;
  const float* const source = packed + part.group * p.group_stride();
  float* const image = y + (part.group * to.blocks + part.first_block) * to.pixels() * kLanes;
  Gather<float> g = {};
  g.blocks = p.of.blocks;
  g.chain = d.chain;
  g.block_stride = p.block_stride();
  g.filters = filters;
  g.filter_stride = pair_filters(d.shape, d.kind);
  g.taps = d.shape.kernel * d.shape.kernel;
  g.pairs = divide_up(part.blocks, 2);
  for (const auto& [target, row, rows] : pieces) {
    g.source = source + row * kLanes;
    g.links = d.targets.links.data() + target.begin;
    g.link_count = target.end - target.begin;
    g.results = in_place ? image + (target.pixel + row * target.step) * kLanes : memory;
    g.spacing = (in_place ? target.step : 1) * kLanes;
    g.second = (in_place ? to.pixels() : kRowsOfResults) * kLanes;
    g.rows = rows;
    products<float>().gather(g);
    if (!in_place) unpack(p, to, part, target, row, rows, memory, y);
  }
}

// The filters of a part, made of weights.
const float* own_filters(const Direction& d, const Part& part, const float* weights,
                         float* filters) {
  for (int64_t block = 0; block < part.blocks; block += 2)
    pack_filters(d.shape, d.kind, (part.first_block + block) * kLanes, weights,
                 filters + block / 2 * pair_filters(d.shape, d.kind));
  return filters;
}

// `filters` are weights if filters are not held.
void gather_samples(const Direction& d, const Packing& p, const float* x, const float* filters,
                    float* y, float* memory) {
  const float* const packed = pack(p, x, memory);
  float* const threads_memory = memory + p.count();
  const auto pieces = static_cast<int64_t>(d.pieces.size());
  const int64_t at_once = d.pieces_at_once();
#pragma omp parallel for collapse(3)
  for (int64_t piece = 0; piece < pieces; piece += at_once)
    for (int64_t first = 0; first < d.results.blocks; first += 2 * kPairsOfPart)
      for (int64_t group = 0; group < p.groups(); ++group) {
        const Part part = {group, first, std::min(2 * kPairsOfPart, d.results.blocks - first)};
        const int64_t own = omp_get_thread_num() * thread_filters(d.shape, d.kind);
        const float* const of_part = d.holds_filters()
                                         ? filters + first / 2 * pair_filters(d.shape, d.kind)
                                         : own_filters(d, part, filters, threads_memory + own);
        gather_pieces(
            d, p, packed, of_part, part,
            {d.pieces.data() + piece, d.pieces.data() + std::min(piece + at_once, pieces)}, y);
      }
}

// Calls gather(packing, first sample, samples) for some samples at a time.
template <typename GatherSamples>
void for_samples(const Direction& d, GatherSamples gather) {
  const int64_t most = samples_at_once(d);
  for (int64_t first = 0; first < d.packing.samples; first += most) {
    const int64_t samples = std::min(most, d.packing.samples - first);
    gather(d.packing.with_samples(samples), first, samples);
  }
}

}  // namespace

struct PackedConvolution::Plan {
  explicit Plan(const ConvShape& shape)
      : forward(forward_direction(shape)),
        backward(backward_direction(shape)),
        weight_gradient(shape) {}

  const Direction& with(Weights kind) const { return kind == Weights::plain ? forward : backward; }

  Direction forward;
  Direction backward;
  PackedWeightGradient weight_gradient;
};

PackedConvolution::PackedConvolution(const ConvShape& shape)
    : plan_(std::make_shared<const Plan>(shape)) {}

int64_t PackedConvolution::scratch_count() const {
  return std::max({scratch_of(plan_->forward), scratch_of(plan_->backward),
                   plan_->weight_gradient.scratch_count()});
}

bool PackedConvolution::holds_filters(Weights kind) const {
  return plan_->with(kind).holds_filters();
}

int64_t PackedConvolution::filter_count(Weights kind) const {
  const ConvShape& s = plan_->with(kind).shape;
  return divide_up(outs_of(s, kind), kPair) * pair_filters(s, kind);
}

void PackedConvolution::make_filters(Weights kind, const float* weights, float* filters) const {
  const ConvShape& s = plan_->with(kind).shape;
#pragma omp parallel for
  for (int64_t first = 0; first < outs_of(s, kind); first += kPair)
    pack_filters(s, kind, first, weights, filters + first / kPair * pair_filters(s, kind));
}

void PackedConvolution::forward(const float* x, const float* filters, float* y,
                                float* memory) const {
  const Direction& d = plan_->forward;
  for_samples(d, [&](const Packing& p, int64_t first, int64_t samples) {
    const ConvShape whole = d.whole.with_samples(samples);
    const float* from = x + first * whole.input_size();
    if (d.skips()) from = take_pixels(whole, from, memory);
    gather_samples(d, p, from, filters, y + first * whole.result_size(),
                   memory + taken_count(whole));
  });
}

void PackedConvolution::input_gradient(const float* dy, const float* filters, float* dx,
                                       float* memory) const {
  const Direction& d = plan_->backward;
  for_samples(d, [&](const Packing& p, int64_t first, int64_t samples) {
    const ConvShape whole = d.whole.with_samples(samples);
    float* const to = dx + first * whole.input_size();
    gather_samples(d, p, dy + first * whole.result_size(), filters, d.skips() ? memory : to,
                   memory + taken_count(whole));
    if (d.skips()) spread_pixels(whole, memory, to);
  });
}

void PackedConvolution::weight_gradient(const float* x, const float* dy, float* weights,
                                        float* memory) const {
  plan_->weight_gradient.compute(x, dy, weights, memory);
}

}  // namespace lockstep::kernels
