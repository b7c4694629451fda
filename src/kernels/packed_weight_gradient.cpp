// The weights' gradient of a packed convolution, in the words of packed_convolution.cpp: for each
// tap a product of matrices, in channels x pixels times pixels x out channels. It is summed over
// *runs*, pixels that lie together in x and in dy: rows of an image, or where rows are short the
// samples of a group at one pixel. Sums run over samples, rows and columns; or over groups, pixels
// and samples.
#include "kernels/packed_weight_gradient.h"

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
Packing by_pixels(const ConvShape& s, Images of, int64_t samples) {
  return {{of.blocks, of.pixels(), 1}, samples, samples_of_group(s), 1, 1, 0};
}

// The products of some pairs, over all of the images. One pair may have no second block.
void add_products(const ConvShape& s, const OuterPlan& plan, const OuterImages& images, Sum sum,
                  int64_t first_pair, int64_t pairs, float* to) {
  const auto taps = static_cast<int64_t>(plan.runs_by_tap.size());
  const int64_t blocks = s.in_channels / kLanes;
  const bool has_second = 2 * (first_pair + pairs) <= s.out_channels / kLanes;
  for (int64_t first = 0; first < images.samples; first += plan.samples)
    for (int64_t block = 0; block < blocks; ++block)
      for (int64_t tap = 0; tap < taps; ++tap) {
        const std::vector<Run>& runs = plan.runs_by_tap[static_cast<size_t>(tap)];
        const auto count = static_cast<int64_t>(runs.size());
        products<float>().outer(
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
             .sum = first == 0 ? sum : Sum::goes_on});
      }
}

// Some pairs that are computed by one thread.
struct OuterPart {
  OuterPart(const ConvShape& s, int64_t first_pair)
      : first(first_pair),
        end(std::min(first + kPairsOfPart, divide_up(s.out_channels, kPair))),
        whole(std::min(end, s.out_channels / kPair) - first) {}

  int64_t first;
  int64_t end;
  int64_t whole;  ///< pairs that have a second block
};

void add_part(const ConvShape& s, const OuterPlan& plan, const OuterImages& images, Sum sum,
              const OuterPart& part, float* filters) {
  if (part.whole > 0) add_products(s, plan, images, sum, part.first, part.whole, filters);
  if (part.first + part.whole < part.end)
    add_products(s, plan, images, sum, part.first + part.whole, 1,
                 filters + part.whole * pair_filters(s, Weights::plain));
}

void unpack_part(const ConvShape& s, const OuterPart& part, const float* filters, float* weights) {
  for (int64_t pair = part.first; pair < part.end; ++pair)
    unpack_filters(s, pair * kPair, filters + (pair - part.first) * pair_filters(s, Weights::plain),
                   weights);
}

// Whether the pixels that filters of 1 x 1 skip are left out first. Long rows that are read once or
// twice can be summed as they are.
bool takes_pixels(const ConvShape& s) {
  return skips_pixels(s) && (s.out_width() < kLanes || s.out_channels > 2 * kPairsOfPart * kPair);
}

ConvShape summed_shape(const ConvShape& s) {
  return skips_pixels(s) && !takes_pixels(s) ? s : simplified(s);
}

int64_t part_count(const ConvShape& s) {
  return divide_up(s.out_channels, kPairsOfPart * kPair);
}

// How many samples are multiplied at a time: as many as stay in the cache while all parts are
// computed; all of them if the parts' products would not stay there.
int64_t samples_at_once(const ConvShape& s) {
  constexpr int64_t kMostProducts = 256 << 10, kEnough = 128 << 10;
  if (part_count(s) * thread_filters(s, Weights::plain) > kMostProducts) return s.samples;
  const int64_t size =
      s.in_channels * s.in_height * s.in_width + s.out_channels * s.out_height() * s.out_width();
  const int64_t group = has_short_rows(s) ? samples_of_group(s) : 1;
  return std::min(s.samples, divide_up(kEnough, size * group) * group);
}

}  // namespace

PackedWeightGradient::PackedWeightGradient(const ConvShape& shape)
    : whole_(shape),
      shape_(summed_shape(shape)),
      plan_(has_short_rows(shape_) ? plan_by_pixels(shape_) : plan_by_rows(shape_)),
      samples_at_once_(samples_at_once(shape_)) {}

// Products of parts are kept from one batch of samples to the next; if there is one batch only,
// only until the thread computes its next part.
int64_t PackedWeightGradient::scratch_count() const {
  const bool one_batch = samples_at_once_ == shape_.samples;
  int64_t count = thread_filters(shape_, Weights::plain) *
                  (one_batch ? omp_get_max_threads() : part_count(shape_));
  if (takes_pixels(whole_)) count += taken_count(whole_.with_samples(samples_at_once_));
  if (has_short_rows(shape_))
    for (const Images& images : {inputs_of(shape_), results_of(shape_)})
      count += by_pixels(shape_, images, samples_at_once_).count();
  return count;
}

void PackedWeightGradient::compute(const float* x, const float* dy, float* weights,
                                   float* memory) const {
  const bool one_batch = samples_at_once_ == shape_.samples;
  const int64_t of_part = thread_filters(shape_, Weights::plain), parts = part_count(shape_);
  float* const images_memory = memory + of_part * (one_batch ? omp_get_max_threads() : parts);
  for (int64_t first = 0; first < shape_.samples; first += samples_at_once_) {
    const int64_t samples = std::min(samples_at_once_, shape_.samples - first);
    const OuterImages images = prepared_images(x, dy, first, samples, images_memory);
#pragma omp parallel for
    for (int64_t i = 0; i < parts; ++i) {
      const OuterPart part(shape_, i * kPairsOfPart);
      float* const filters = memory + (one_batch ? omp_get_thread_num() : i) * of_part;
      add_part(shape_, plan_, images, first == 0 ? Sum::begins : Sum::goes_on, part, filters);
      if (first + samples == shape_.samples) unpack_part(shape_, part, filters, weights);
    }
  }
}

// Samples from `first` on, without the pixels that are skipped, and packed if rows are short.
OuterImages PackedWeightGradient::prepared_images(const float* x, const float* dy, int64_t first,
                                                  int64_t samples, float* memory) const {
  const ConvShape whole = whole_.with_samples(samples);
  OuterImages images = {x + first * whole.input_size(), dy + first * whole.result_size(), samples};
  if (takes_pixels(whole_)) {
    images.x = take_pixels(whole, images.x, memory);
    memory += taken_count(whole);
  }
  if (!has_short_rows(shape_)) return images;
  const Packing packed_x = by_pixels(shape_, inputs_of(shape_), samples);
  images.x = pack(packed_x, images.x, memory);
  images.dy =
      pack(by_pixels(shape_, results_of(shape_), samples), images.dy, memory + packed_x.count());
  images.samples = packed_x.groups();
  return images;
}

}  // namespace lockstep::kernels
