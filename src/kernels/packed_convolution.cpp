// A convolution by its definition is, for each *tap* (row and column of the filters), a product of
// matrices, pixels x in channels times in channels x out channels. So that many pixels are
// multiplied at a time also where rows are short, images are first *packed*, in groups of samples:
//
//     [group][block][row][phase][column][sample of the group][8]
//
// with columns of zeros for padding. With a stride s, the columns 0, s, 2s, ... are *phase* 0,
// 1, s + 1, ... phase 1, and so on, so that a tap finds the pixels it lies on one after another. A
// *target* is a row of results (or of every s-th one, for the input's gradient), or a single pixel
// where filters are larger than images: then taps that lie on padding are skipped.
//
// Filters are [pair of blocks of out channels][block of in channels][tap][8][16]. Sums always run
// in one order, whatever the number of threads: over blocks, taps, channels of the block; for the
// input's gradient four blocks each are summed, then added; those of the weights' gradient run over
// samples, rows, columns. oneDNN's kernels for AVX2 add in the same order (those of filters larger
// than 1 x 1, and forward all), so that a model gets the same bits from both.
#include "kernels/packed_convolution.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/lanes.h"
#include "kernels/products.h"

// As omp.h declares them, which not all of Clang's packages have.
extern "C" {
int omp_get_max_threads();
int omp_get_thread_num();
}

namespace lockstep::kernels {
namespace {

constexpr int64_t kRowsOfGroup = 192;   // pixels, at least, if there are as many
constexpr int64_t kRowsOfTarget = 12;   // the same
constexpr int64_t kRowsOfChunk = 256;   // whose weights' gradients are summed at a time
constexpr int64_t kRowsOfResults = 96;  // that are computed at a time
constexpr int64_t kPairsOfPart = 2;     // of results that are computed at a time

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
bool skips_pixels(const ConvShape& s) {
  return s.kernel == 1 && s.padding == 0 && s.stride > 1;
}
ConvShape simplified(const ConvShape& s) {
  if (s.kernel != 1 || s.padding != 0) return s;
  ConvShape simple = s;
  simple.in_width = s.out_height() * s.out_width();
  simple.in_height = simple.stride = 1;
  return simple;
}

// How many blocks the input's gradient sums before it adds them to others: as many as oneDNN.
int64_t blocks_at_once(const ConvShape& s) {
  if (s.kernel == 1) return s.out_channels / kLanes;
  return s.out_width() <= 14 ? 4 : 2;
}

// Then more samples than pixels of a row can be multiplied at a time.
bool has_short_rows(const ConvShape& s) {
  return s.is_smaller_than_filters() || (s.out_width() < kLanes && s.samples >= s.out_width());
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

int64_t group_of(const ConvShape& s, const Images& targets) {
  if (s.kernel == 1 && targets.width >= 2 * kRowsOfTarget) return 1;  // then nothing need be packed
  const int64_t enough =
      std::max(divide_up(kRowsOfGroup, targets.pixels()), divide_up(kRowsOfTarget, targets.width));
  return divide_up(s.samples, divide_up(s.samples, enough));
}

Packing forward_packing(const ConvShape& s) {
  return {inputs_of(s),
          s.samples,
          group_of(s, results_of(s)),
          s.stride,
          s.out_width() + (s.kernel - 1) / s.stride,
          s.padding};
}

Packing backward_packing(const ConvShape& s) {
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

// One row, phase and sample of a group.
template <typename T>
void pack_row(const Packing& p, int64_t phase, const T* from, T* to) {
  const int64_t stride = p.column_stride();
  const int64_t begin =
      std::min(p.columns, divide_up(std::max<int64_t>(0, p.left - phase), p.phases));
  const int64_t end =
      std::clamp(divide_up(p.of.width + p.left - phase, p.phases), begin, p.columns);
  for (int64_t column = 0; column < begin; ++column) clear_pixel(to + column * stride);
  from += (begin * p.phases + phase - p.left) * kLanes;
  for (int64_t column = begin; column < end; ++column, from += p.phases * kLanes)
    copy_pixel(from, to + column * stride);
  for (int64_t column = end; column < p.columns; ++column) clear_pixel(to + column * stride);
}

// Returns where the packed images are: `memory`, unless x need not be packed.
template <typename T>
const T* pack(const Packing& p, const T* x, T* memory) {
  if (p.changes_nothing()) return x;
#pragma omp parallel for collapse(2)
  for (int64_t group = 0; group < p.groups(); ++group)
    for (int64_t block = 0; block < p.of.blocks; ++block)
      for (int64_t row = 0; row < p.of.height; ++row)
        for (int64_t phase = 0; phase < p.phases; ++phase)
          for (int64_t i = 0; i < p.group; ++i) {
            T* to = memory + group * p.group_stride() + block * p.block_stride() +
                    row * p.row_stride() + phase * p.phase_stride() + i * kLanes;
            const int64_t sample = group * p.group + i;
            if (sample < p.samples)
              pack_row(
                  p, phase,
                  x + ((sample * p.of.blocks + block) * p.of.height + row) * p.of.width * kLanes,
                  to);
            else
              for (int64_t column = 0; column < p.columns; ++column)
                clear_pixel(to + column * p.column_stride());
          }
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

int64_t taken_count(const ConvShape& s) {
  return skips_pixels(s) ? s.samples * s.in_channels * s.out_height() * s.out_width() : 0;
}

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

Targets forward_targets(const ConvShape& s, const Packing& p) {
  Targets of;
  const bool by_pixel = s.is_smaller_than_filters();
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

Targets backward_targets(const ConvShape& s, const Packing& p) {
  Targets of;
  const bool by_pixel = s.is_smaller_than_filters();
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

int64_t outs_of(const ConvShape& s, Weights kind) {
  return kind == Weights::plain ? s.out_channels : s.in_channels;
}

// One pair's.
template <typename T>
void pack_filters(const ConvShape& s, Weights kind, int64_t first, const T* weights, T* filters) {
  const Products<T> by = products<T>();
  const int64_t outs = std::min(kPair, outs_of(s, kind) - first);
  for_transpositions(s, kind, first, [&](const Transposition& t, int64_t weight, int64_t filter) {
    if (outs == kPair) return by.transpose(t, weights + weight, filters + filter);
    for (int64_t k = 0; k < t.count; ++k)
      for (int64_t i = 0; i < kPair; ++i)
        filters[filter + k * t.transposed_stride + i] =
            i < outs ? weights[weight + i * t.stride + k] : T(0);
  });
}

template <typename T>
void unpack_filters(const ConvShape& s, int64_t first, const T* filters, T* weights) {
  const Products<T> by = products<T>();
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
int64_t pair_filters(const ConvShape& s, Weights kind) {
  return (kind == Weights::plain ? s.in_channels : s.out_channels) * s.kernel * s.kernel * kPair;
}

// The filters of some pairs for each thread.
int64_t thread_filters(const ConvShape& s, Weights kind) {
  return kPairsOfPart * pair_filters(s, kind);
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

// The sums of a convolution's weights' gradient: for each tap, the same number of runs for each
// sample (or for all of them, if they are packed).
struct OuterPlan {
  std::vector<std::vector<Run>> runs_by_tap;  ///< of `samples`
  int64_t samples;
  int64_t x_block;   ///< from a block to its next one
  int64_t dy_block;  ///< the same
  int64_t x_spacing;
};

OuterPlan plan_by_rows(const ConvShape& s) {
  const int64_t pixels = s.out_height() * s.out_width();
  OuterPlan plan = {{},
                    std::min(s.samples, std::max<int64_t>(1, kRowsOfChunk / pixels)),
                    s.in_height * s.in_width * kLanes,
                    pixels * kLanes,
                    s.stride * kLanes};
  for (int64_t tap = 0; tap < s.kernel * s.kernel; ++tap) {
    const int64_t ky = tap / s.kernel - s.padding, kx = tap % s.kernel - s.padding;
    const int64_t begin = divide_up(std::max<int64_t>(0, -kx), s.stride);
    const int64_t end =
        std::min(s.out_width(), divide_up(std::max<int64_t>(0, s.in_width - kx), s.stride));
    std::vector<Run>& runs = plan.runs_by_tap.emplace_back();
    for (int64_t sample = 0; sample < plan.samples; ++sample)
      for (int64_t row = 0; row < s.out_height() && begin < end; ++row) {
        const int64_t y = row * s.stride + ky;
        if (y < 0 || y >= s.in_height) continue;
        const int64_t x_row = sample * s.in_channels / kLanes * s.in_height + y;
        const int64_t dy_row = sample * s.out_channels / kLanes * s.out_height() + row;
        runs.push_back({(x_row * s.in_width + begin * s.stride + kx) * kLanes,
                        (dy_row * s.out_width() + begin) * kLanes, end - begin});
      }
  }
  return plan;
}

// For images that by_pixels packed.
OuterPlan plan_by_pixels(const ConvShape& s) {
  const int64_t pixel = s.samples * kLanes;
  OuterPlan plan = {
      {}, 1, s.in_height * s.in_width * pixel, s.out_height() * s.out_width() * pixel, kLanes};
  for (int64_t tap = 0; tap < s.kernel * s.kernel; ++tap) {
    std::vector<Run>& runs = plan.runs_by_tap.emplace_back();
    for (int64_t at = 0; at < s.out_height() * s.out_width(); ++at) {
      const int64_t y = at / s.out_width() * s.stride + tap / s.kernel - s.padding;
      const int64_t x = at % s.out_width() * s.stride + tap % s.kernel - s.padding;
      if (y >= 0 && y < s.in_height && x >= 0 && x < s.in_width)
        runs.push_back({(y * s.in_width + x) * pixel, at * pixel, s.samples});
    }
  }
  return plan;
}

// All samples of a pixel lie together: [block][pixel][sample][8].
Packing by_pixels(const ConvShape& s, Images of) {
  return {{of.blocks, of.pixels(), 1}, s.samples, s.samples, 1, 1, 0};
}

// The products of some pairs, over all samples. The last one may have no second block.
template <typename T>
void add_products(const ConvShape& s, const OuterPlan& plan, int64_t samples, int64_t first_pair,
                  int64_t pairs, const T* x, const T* dy, T* to) {
  const auto taps = static_cast<int64_t>(plan.runs_by_tap.size());
  const int64_t blocks = s.in_channels / kLanes;
  const bool has_second = 2 * (first_pair + pairs) <= s.out_channels / kLanes;
  for (int64_t first = 0; first < samples; first += plan.samples)
    for (int64_t block = 0; block < blocks; ++block)
      for (int64_t tap = 0; tap < taps; ++tap) {
        const std::vector<Run>& runs = plan.runs_by_tap[static_cast<size_t>(tap)];
        const auto count = static_cast<int64_t>(runs.size());
        products<T>().outer(
            {.x = x + (first * blocks + block) * plan.x_block,
             .x_spacing = plan.x_spacing,
             .dy = dy + (first * s.out_channels / kLanes + 2 * first_pair) * plan.dy_block,
             .second = has_second ? plan.dy_block : 0,
             .runs = runs.data(),
             .run_count = count / plan.samples * std::min(plan.samples, samples - first),
             .products = to + (block * taps + tap) * kLanes * kPair,
             .pairs = pairs,
             .dy_stride = 2 * plan.dy_block,
             .product_stride = blocks * taps * kLanes * kPair,
             .sum = first == 0 ? Sum::begins : Sum::goes_on});
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
  const int64_t images = by_pixels(s, inputs_of(s)).count() + by_pixels(s, results_of(s)).count();
  const int64_t filters = thread_filters(s, Weights::plain) * omp_get_max_threads();
  return taken_count(shape) +
         std::max({scratch_of(forward_direction(s)), scratch_of(backward_direction(s)),
                   filters + (has_short_rows(s) ? images : 0)});
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

template <typename T>
void packed_weight_gradient(const ConvShape& shape, const T* x, const T* dy, T* weights,
                            T* memory) {
  const ConvShape s = simplified(shape);
  if (skips_pixels(shape)) x = take_pixels(shape, x, memory);
  const OuterPlan plan = has_short_rows(s) ? plan_by_pixels(s) : plan_by_rows(s);
  const int64_t samples = has_short_rows(s) ? 1 : s.samples;
  T* const threads_memory = memory + taken_count(shape);
  const int64_t of_thread = thread_filters(s, Weights::plain);
  if (has_short_rows(s)) {
    const Packing packed_x = by_pixels(s, inputs_of(s));
    T* const at_x = threads_memory + of_thread * omp_get_max_threads();
    x = pack(packed_x, x, at_x);
    dy = pack(by_pixels(s, results_of(s)), dy, at_x + packed_x.count());
  }
  const int64_t whole_pairs = s.out_channels / kPair;
#pragma omp parallel for
  for (int64_t first = 0; first < divide_up(s.out_channels, kPair); first += kPairsOfPart) {
    T* const filters = threads_memory + omp_get_thread_num() * of_thread;
    const int64_t end = std::min(first + kPairsOfPart, divide_up(s.out_channels, kPair));
    for (int64_t pair = first, pairs = 0; pair < end; pair += pairs) {
      pairs = pair < whole_pairs ? std::min(end, whole_pairs) - pair : 1;
      add_products(s, plan, samples, pair, pairs, x, dy, filters);
      for (int64_t i = 0; i < pairs; ++i)
        unpack_filters(s, (pair + i) * kPair, filters + i * pair_filters(s, Weights::plain),
                       weights);
    }
  }
}

#define LOCKSTEP_FOR(T)                                                              \
  template void packed_filters(const ConvShape&, Weights, const T*, T*);             \
  template void packed_convolve(const ConvShape&, const T*, const T*, T*, T*);       \
  template void packed_input_gradient(const ConvShape&, const T*, const T*, T*, T*); \
  template void packed_weight_gradient(const ConvShape&, const T*, const T*, T*, T*)
LOCKSTEP_FOR(float);
LOCKSTEP_FOR(double);
#undef LOCKSTEP_FOR

}  // namespace lockstep::kernels
