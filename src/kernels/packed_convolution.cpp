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

// `g` says where images and filters are.
void gather_part(const Packing& p, const Images& to, const Targets& of, const Part& part,
                 Gather<float>& g, float* y) {
  float memory[2 * kPairsOfPart * kRowsOfResults * kLanes];
  // Then results need not be unpacked.
  const bool in_place = p.group == 1 && part.blocks % 2 == 0;
  float* const image = y + (part.group * to.blocks + part.first_block) * to.pixels() * kLanes;
  const float* const source = g.source;
  for (const Target& target : of.targets) {
    const int64_t rows = target.columns * p.group;
    for (int64_t row = 0; row < rows; row += kRowsOfResults) {
      g.links = of.links.data() + target.begin;
      g.link_count = target.end - target.begin;
      g.results = in_place ? image + (target.pixel + row * target.step) * kLanes : memory;
      g.spacing = (in_place ? target.step : 1) * kLanes;
      g.second = (in_place ? to.pixels() : kRowsOfResults) * kLanes;
      g.rows = std::min(kRowsOfResults, rows - row);
      g.source = source + row * kLanes;
      products<float>().gather(g);
      if (!in_place) unpack(p, to, part, target, row, g.rows, memory, y);
    }
  }
}

// A convolution in one of its directions.
struct Direction {
  ConvShape whole;  ///< with the pixels that are skipped
  ConvShape shape;
  Weights kind;
  Packing packing;
  Images results;
  Targets targets;
  int64_t chain;  ///< of blocks

  bool skips() const { return skips_pixels(whole); }
  bool holds_filters() const { return packing.groups() > 1; }
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
Direction backward_direction(const ConvShape& whole) {
  const ConvShape s = simplified(whole);
  const Packing packing = backward_packing(s);
  return {whole,
          s,
          Weights::transposed,
          packing,
          inputs_of(s),
          backward_targets(s, packing),
          backward_chain(s)};
}

// How many samples are packed and multiplied at a time: a few groups for each thread, so that they
// stay in the cache while all filters pass.
int64_t samples_at_once(const Direction& d) {
  constexpr int64_t kEnough = 64 << 10;  // numbers
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

// `filters` are weights if filters are not held.
void gather_samples(const Direction& d, const Packing& p, const float* x, const float* filters,
                    float* y, float* memory) {
  const float* const packed = pack(p, x, memory);
  float* const threads_memory = memory + p.count();
#pragma omp parallel for collapse(2)
  for (int64_t first = 0; first < d.results.blocks; first += 2 * kPairsOfPart)
    for (int64_t group = 0; group < p.groups(); ++group) {
      const Part part = {group, first, std::min(2 * kPairsOfPart, d.results.blocks - first)};
      Gather<float> g = {};
      g.source = packed + group * p.group_stride();
      g.blocks = p.of.blocks;
      g.chain = d.chain;
      g.block_stride = p.block_stride();
      g.filter_stride = pair_filters(d.shape, d.kind);
      g.filters = filters + first / 2 * g.filter_stride;
      g.taps = d.shape.kernel * d.shape.kernel;
      g.pairs = divide_up(part.blocks, 2);
      if (!d.holds_filters()) {
        float* const own = threads_memory + omp_get_thread_num() * thread_filters(d.shape, d.kind);
        for (int64_t pair = 0; pair < g.pairs; ++pair)
          pack_filters(d.shape, d.kind, (first + 2 * pair) * kLanes, filters,
                       own + pair * g.filter_stride);
        g.filters = own;
      }
      gather_part(p, d.results, d.targets, part, g, y);
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
