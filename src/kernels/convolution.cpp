#include "kernels/convolution.h"

#include <algorithm>
#include <string>

#include "kernels/cpu.h"
#include "kernels/lanes.h"
#include "kernels/thin_convolution.h"
#include "kernels/winograd.h"

namespace lockstep::kernels {
namespace {

// Of the 4 x 4 results of tiles, less than this part lies in images of 3, 5, 6 and 9 pixels a side.
constexpr double kLeastFilled = 0.6;

// With fewer tiles, transforming filters takes longer than it saves.
constexpr int64_t kLeastTiles = 10;

constexpr int64_t kFewPixels = 64;
constexpr int64_t kSmallFilters = 3;

bool fills_tiles(const ConvShape& shape) {
  const int64_t tiles = winograd_tiles(shape);
  const int64_t results = shape.samples * shape.out_height() * shape.out_width();
  return tiles >= kLeastTiles &&
         static_cast<double>(results) >= kLeastFilled * 16 * static_cast<double>(tiles);
}

// Then half of each pair of blocks that our kernels compute at a time is empty.
bool has_one_block(const ConvShape& shape) {
  return std::min(shape.in_channels, shape.out_channels) == kLanes;
}

// Then oneDNN takes longer to reorder weights than to use them.
bool has_few_pixels(const ConvShape& shape) {
  return shape.samples * shape.out_height() * shape.out_width() <= kFewPixels;
}

// Whether oneDNN has only a reference kernel for one of the passes: a property of its version, the
// processor and the shape.
bool only_by_reference(const ConvShape& shape) {
  const Implementations of =
      DirectConvolution(shape, ImageLayout::blocked, Reordering::weights).implementations();
  return is_reference(of.forward) || is_reference(of.input_gradient) ||
         is_reference(of.weight_gradient);
}

// Whether oneDNN is faster than packed convolutions in our layout.
bool direct_is_fast(const ConvShape& shape) {
  return !has_few_pixels(shape) && !shape.is_smaller_than_filters() && !only_by_reference(shape);
}

// Whether a packed convolution leaves its input's gradient to oneDNN, whose bits are the same.
bool has_direct_input_gradient(const ConvShape& shape) {
  return has_avx512() && has_one_block(shape) && shape.kernel > 1 && direct_is_fast(shape);
}

// Whether oneDNN has more than a reference kernel for a plain image, which is asked too often to
// ask oneDNN: a part of what it has.
bool first_layer_is_fast(const ConvShape& shape) {
  return shape.in_channels < kLanes && 2 * shape.padding < shape.kernel && shape.kernel <= 7 &&
         (shape.kernel <= kSmallFilters ||
          (shape.stride <= 3 && std::min(shape.in_height, shape.in_width) > 1));
}

// Reordering images takes longer than it saves, except for large filters over plain images.
Reordering reordering_for(const ConvShape& shape, ImageLayout input) {
  return input == ImageLayout::plain && shape.kernel > kSmallFilters ? Reordering::images
                                                                     : Reordering::weights;
}

float* floats(std::byte* scratch) {
  return reinterpret_cast<float*>(scratch);
}

// A Winograd convolution; makes `filters` if they are to be kept and are empty.
void convolve(const ConvShape& shape, Weights kind, const float* weights, Filters& filters,
              const float* x, float* y, float* scratch) {
  if (!winograd_holds_filters(shape)) return winograd_convolve(shape, x, kind, weights, y, scratch);
  if (filters.empty()) {
    filters.resize(static_cast<size_t>(winograd_filter_count(shape)));
    winograd_filters(shape, kind, weights, filters.data());
  }
  winograd_convolve(shape, x, filters.data(), y, scratch);
}

// What a packed convolution needs of the weights; makes `filters` if it holds them and they are
// empty.
const float* prepared(const PackedConvolution& packed, Weights kind, const float* weights,
                      Filters& filters) {
  if (!packed.holds_filters(kind)) return weights;
  if (filters.empty()) {
    filters.resize(static_cast<size_t>(packed.filter_count(kind)));
    packed.make_filters(kind, weights, filters.data());
  }
  return filters.data();
}

}  // namespace

Method method_for(const ConvShape& shape, ImageLayout input) {
  if (input == ImageLayout::plain) return Method::direct;
  if (winograd_serves(shape) && fills_tiles(shape) && !has_one_block(shape))
    return Method::winograd;
  return has_avx512() || !direct_is_fast(shape) ? Method::packed : Method::direct;
}

const char* to_string(Method method) {
  switch (method) {
    case Method::winograd:
      return "winograd";
    case Method::packed:
      return "packed";
    case Method::direct:
      return "direct";
  }
  return "";
}

bool serves(const ConvShape& shape, ImageLayout input) {
  const bool fits =
      input == ImageLayout::blocked ? shape.in_channels % kLanes == 0 : first_layer_is_fast(shape);
  return fits && shape.out_channels % kLanes == 0 &&
         std::min(shape.in_height, shape.in_width) + 2 * shape.padding >= shape.kernel;
}

Convolution::Convolution(const ConvShape& shape, ImageLayout input)
    : shape_(shape), method_(method_for(shape, input)) {
  if (method_ == Method::direct || (method_ == Method::packed && has_direct_input_gradient(shape)))
    direct_.emplace(shape, input, reordering_for(shape, input));
  if (method_ == Method::packed) packed_.emplace(shape);
  if (input == ImageLayout::plain)
    has_thin_gradient_ =
        shape.kernel <= kSmallFilters || is_reference(direct_->implementations().weight_gradient);
}

Implementations Convolution::implementations() const {
  Implementations of = direct_ ? direct_->implementations() : Implementations();
  if (method_ != Method::direct) of.forward = of.weight_gradient = "";
  if (has_thin_gradient_) of.weight_gradient = "";
  return of;
}

int64_t Convolution::scratch_bytes() const {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  int64_t bytes = direct_ ? direct_->scratch_bytes() : 0;
  if (has_thin_gradient_) bytes = std::max(bytes, kFloat * thin_scratch_count(shape_));
  if (packed_) bytes = std::max(bytes, kFloat * packed_->scratch_count());
  if (method_ == Method::winograd)
    bytes = kFloat *
            std::max(winograd_scratch_count(shape_), winograd_scratch_count(shape_.transposed()));
  return bytes;
}

int64_t Convolution::kept_bytes() const {
  int64_t count = direct_ ? 2 * shape_.weight_count() : 0;
  if (packed_)
    for (const Weights kind : {Weights::plain, Weights::transposed})
      if (packed_->holds_filters(kind)) count += packed_->filter_count(kind);
  if (method_ == Method::winograd)
    for (const ConvShape& shape : {shape_, shape_.transposed()})
      if (winograd_holds_filters(shape)) count += winograd_filter_count(shape);
  return count * static_cast<int64_t>(sizeof(float));
}

void Convolution::weights_changed() {
  if (direct_) direct_->weights_changed();
  filters_.clear();
  transposed_filters_.clear();
}

void Convolution::forward(const float* weights, const float* x, float* y, std::byte* scratch) {
  if (method_ == Method::direct) return direct_->forward(weights, x, y, scratch);
  if (packed_)
    return packed_->forward(x, prepared(*packed_, Weights::plain, weights, filters_), y,
                            floats(scratch));
  convolve(shape_, Weights::plain, weights, filters_, x, y, floats(scratch));
}

void Convolution::input_gradient(const float* weights, const float* dy, float* dx,
                                 std::byte* scratch) {
  if (direct_) return direct_->input_gradient(weights, dy, dx, scratch);
  if (packed_)
    return packed_->input_gradient(
        dy, prepared(*packed_, Weights::transposed, weights, transposed_filters_), dx,
        floats(scratch));
  convolve(shape_.transposed(), Weights::transposed, weights, transposed_filters_, dy, dx,
           floats(scratch));
}

void Convolution::weight_gradient(const float* x, const float* dy, float* weights,
                                  std::byte* scratch) const {
  if (has_thin_gradient_) return thin_weight_gradient(shape_, x, dy, weights, floats(scratch));
  if (method_ == Method::direct) return direct_->weight_gradient(x, dy, weights, scratch);
  if (packed_) return packed_->weight_gradient(x, dy, weights, floats(scratch));
  winograd_weight_gradient(shape_, x, dy, weights, floats(scratch));
}

}  // namespace lockstep::kernels
