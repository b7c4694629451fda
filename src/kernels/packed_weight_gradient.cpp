// The weights' gradient of a packed convolution, in the words of packed_convolution.cpp: for each
// tap a product of matrices, in channels x pixels times pixels x out channels. It is summed over
// *runs*, pixels that lie together in x and in dy: rows of an image, or where rows are short the
// samples of a group at one pixel. Sums run over samples, rows and columns; or over groups, pixels
// and samples.
#include <vector>

#include "kernels/packed_convolution.h"
#include "kernels/packed_filters.h"
#include "kernels/packed_images.h"
#include "kernels/threads.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kRowsOfChunk = 256;  // pixels that are summed at a time

// Then more samples than pixels of a row can be multiplied at a time.
bool has_short_rows(const ConvShape& s) {
  return s.out_width() < kLanes && s.samples >= s.out_width();
}

// How many samples are packed together where rows are short: as many as fill a chunk, as evenly as
// possible.
int64_t samples_of_group(const ConvShape& s) {
  const int64_t most = std::max(kLanes, kRowsOfChunk / (s.out_height() * s.out_width()));
  return divide_up(s.samples, divide_up(s.samples, most));
}

// The sums of a convolution's weights' gradient: for each tap, the same number of runs for each
// sample (or for each group of them, if they are packed).
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
  const int64_t group = samples_of_group(s);
  const int64_t pixel = group * kLanes;
  OuterPlan plan = {
      {}, 1, s.in_height * s.in_width * pixel, s.out_height() * s.out_width() * pixel, kLanes};
  for (int64_t tap = 0; tap < s.kernel * s.kernel; ++tap) {
    std::vector<Run>& runs = plan.runs_by_tap.emplace_back();
    for (int64_t at = 0; at < s.out_height() * s.out_width(); ++at) {
      const int64_t y = at / s.out_width() * s.stride + tap / s.kernel - s.padding;
      const int64_t x = at % s.out_width() * s.stride + tap % s.kernel - s.padding;
      if (y >= 0 && y < s.in_height && x >= 0 && x < s.in_width)
        runs.push_back({(y * s.in_width + x) * pixel, at * pixel, group});
    }
  }
  return plan;
}

// The samples of a group lie together at each pixel: [group][block][pixel][sample of the group][8].
Packing by_pixels(const ConvShape& s, Images of) {
  return {{of.blocks, of.pixels(), 1}, s.samples, samples_of_group(s), 1, 1, 0};
}

// The images of a weights' gradient, packed or not.
template <typename T>
struct OuterImages {
  const T* x;
  const T* dy;
  int64_t samples;  ///< or groups
};

// The products of some pairs, over all samples. One pair may have no second block.
template <typename T>
void add_products(const ConvShape& s, const OuterPlan& plan, const OuterImages<T>& images,
                  int64_t first_pair, int64_t pairs, T* to) {
  const auto taps = static_cast<int64_t>(plan.runs_by_tap.size());
  const int64_t blocks = s.in_channels / kLanes;
  const bool has_second = 2 * (first_pair + pairs) <= s.out_channels / kLanes;
  for (int64_t first = 0; first < images.samples; first += plan.samples)
    for (int64_t block = 0; block < blocks; ++block)
      for (int64_t tap = 0; tap < taps; ++tap) {
        const std::vector<Run>& runs = plan.runs_by_tap[static_cast<size_t>(tap)];
        const auto count = static_cast<int64_t>(runs.size());
        products<T>().outer(
            {.x = images.x + (first * blocks + block) * plan.x_block,
             .x_spacing = plan.x_spacing,
             .dy = images.dy + (first * s.out_channels / kLanes + 2 * first_pair) * plan.dy_block,
             .second = has_second ? plan.dy_block : 0,
             .runs = runs.data(),
             .run_count = count / plan.samples * std::min(plan.samples, images.samples - first),
             .products = to + (block * taps + tap) * kLanes * kPair,
             .pairs = pairs,
             .dy_stride = 2 * plan.dy_block,
             .product_stride = blocks * taps * kLanes * kPair,
             .sum = first == 0 ? Sum::begins : Sum::goes_on});
      }
}

// The gradients of a part: pairs, which are in `filters` until they are transposed.
template <typename T>
void compute_part(const ConvShape& s, const OuterPlan& plan, const OuterImages<T>& images,
                  int64_t first, T* filters, T* weights) {
  const int64_t of_pair = pair_filters(s, Weights::plain);
  const int64_t end = std::min(first + kPairsOfPart, divide_up(s.out_channels, kPair));
  const int64_t whole = std::min(end, s.out_channels / kPair) - first;
  if (whole > 0) add_products(s, plan, images, first, whole, filters);
  if (first + whole < end)
    add_products(s, plan, images, first + whole, 1, filters + whole * of_pair);
  for (int64_t pair = first; pair < end; ++pair)
    unpack_filters(s, pair * kPair, filters + (pair - first) * of_pair, weights);
}

}  // namespace

int64_t packed_weight_gradient_scratch_count(const ConvShape& shape) {
  const ConvShape s = simplified(shape);
  const int64_t images = by_pixels(s, inputs_of(s)).count() + by_pixels(s, results_of(s)).count();
  return taken_count(shape) + thread_filters(s, Weights::plain) * omp_get_max_threads() +
         (has_short_rows(s) ? images : 0);
}

template <typename T>
void packed_weight_gradient(const ConvShape& shape, const T* x, const T* dy, T* weights,
                            T* memory) {
  const ConvShape s = simplified(shape);
  if (skips_pixels(shape)) x = take_pixels(shape, x, memory);
  const OuterPlan plan = has_short_rows(s) ? plan_by_pixels(s) : plan_by_rows(s);
  OuterImages<T> images = {x, dy, s.samples};
  T* const threads_memory = memory + taken_count(shape);
  const int64_t of_thread = thread_filters(s, Weights::plain);
  if (has_short_rows(s)) {
    const Packing packed_x = by_pixels(s, inputs_of(s));
    T* const at_x = threads_memory + of_thread * omp_get_max_threads();
    images.x = pack(packed_x, x, at_x);
    images.dy = pack(by_pixels(s, results_of(s)), dy, at_x + packed_x.count());
    images.samples = packed_x.groups();
  }
#pragma omp parallel for
  for (int64_t first = 0; first < divide_up(s.out_channels, kPair); first += kPairsOfPart)
    compute_part(s, plan, images, first, threads_memory + omp_get_thread_num() * of_thread,
                 weights);
}

template void packed_weight_gradient(const ConvShape&, const float*, const float*, float*, float*);
template void packed_weight_gradient(const ConvShape&, const double*, const double*, double*,
                                     double*);

}  // namespace lockstep::kernels
