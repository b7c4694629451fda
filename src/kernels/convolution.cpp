#include "kernels/convolution.h"

#include <algorithm>
#include <string>

#include "kernels/cpu.h"
#include "kernels/lanes.h"
#include "kernels/packed_convolution.h"
#include "kernels/thin_convolution.h"
#include "kernels/winograd.h"

namespace lockstep::kernels {
namespace {

// Below this size a tile of 4 x 4 results is mostly empty.
constexpr int64_t kLeastSideForWinograd = 3;

// With fewer tiles, transforming filters takes longer than it saves.
constexpr int64_t kLeastTilesForWinograd = 2;
constexpr int64_t kLeastTilesForManyFilters = 6;

constexpr int64_t kFewPixels = 64;

bool fills_tiles(const ConvShape& shape) {
  return std::min(shape.out_height(), shape.out_width()) >= kLeastSideForWinograd &&
         winograd_tiles(shape) >=
             (winograd_holds_filters(shape) ? kLeastTilesForWinograd : kLeastTilesForManyFilters);
}

// Then oneDNN takes longer to reorder weights than to use them.
bool has_few_pixels(const ConvShape& shape) {
  return shape.samples * shape.out_height() * shape.out_width() <= kFewPixels;
}

// Whether oneDNN has only a reference kernel for one of the passes: a property of its version, the
// processor and the shape.
bool only_by_reference(const ConvShape& shape) {
  const std::vector<std::string> of =
      DirectConvolution(shape, ImageLayout::blocked).implementations();
  return std::any_of(of.begin(), of.end(), is_reference);
}

// The same for a plain image, which is asked too often to ask oneDNN: a part of what it is fast
// for.
bool first_layer_is_fast(const ConvShape& shape) {
  return shape.in_channels < kLanes && 2 * shape.padding < shape.kernel && shape.kernel <= 7 &&
         (shape.kernel <= 3 || (shape.stride <= 3 && !shape.is_smaller_than_filters()));
}

float* floats(std::byte* scratch) {
  return reinterpret_cast<float*>(scratch);
}

// A Winograd convolution; makes `filters` if they are to be kept and are empty.
void convolve(const ConvShape& shape, Weights kind, const float* weights,
              std::vector<float>& filters, const float* x, float* y, float* scratch) {
  if (!winograd_holds_filters(shape)) return winograd_convolve(shape, x, kind, weights, y, scratch);
  if (filters.empty()) {
    filters.resize(static_cast<size_t>(winograd_filter_count(shape)));
    winograd_filters(shape, kind, weights, filters.data());
  }
  winograd_convolve(shape, x, filters.data(), y, scratch);
}

// What a packed convolution needs of the weights; makes `filters` if it holds them and they are
// empty.
const float* prepared(const ConvShape& shape, Weights kind, const float* weights,
                      std::vector<float>& filters) {
  if (!packed_holds_filters(shape, kind)) return weights;
  if (filters.empty()) {
    filters.resize(static_cast<size_t>(packed_filter_count(shape, kind)));
    packed_filters(shape, kind, weights, filters.data());
  }
  return filters.data();
}

}  // namespace

Method method_for(const ConvShape& shape, ImageLayout input) {
  if (input == ImageLayout::plain) return Method::direct;
  if (winograd_serves(shape) && fills_tiles(shape)) return Method::winograd;
  return has_avx512() || has_few_pixels(shape) || shape.is_smaller_than_filters() ||
                 only_by_reference(shape)
             ? Method::packed
             : Method::direct;
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
    : shape_(shape), input_(input), method_(method_for(shape, input)) {
  if (method_ == Method::direct) direct_.emplace(shape, input);
}

int64_t Convolution::scratch_bytes() const {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  if (input_ == ImageLayout::plain)
    return std::max(direct_->scratch_bytes(), kFloat * thin_scratch_count(shape_));
  if (direct_) return direct_->scratch_bytes();
  if (method_ == Method::packed) return kFloat * packed_scratch_count(shape_);
  return kFloat *
         std::max(winograd_scratch_count(shape_), winograd_scratch_count(shape_.transposed()));
}

void Convolution::weights_changed() {
  if (direct_) direct_->weights_changed();
  filters_.clear();
  transposed_filters_.clear();
}

void Convolution::forward(const float* weights, const float* x, float* y, std::byte* scratch) {
  if (direct_) return direct_->forward(weights, x, y, scratch);
  if (method_ == Method::packed)
    return packed_convolve(shape_, x, prepared(shape_, Weights::plain, weights, filters_), y,
                           floats(scratch));
  convolve(shape_, Weights::plain, weights, filters_, x, y, floats(scratch));
}

void Convolution::input_gradient(const float* weights, const float* dy, float* dx,
                                 std::byte* scratch) {
  if (direct_) return direct_->input_gradient(weights, dy, dx, scratch);
  if (method_ == Method::packed)
    return packed_input_gradient(
        shape_, dy, prepared(shape_, Weights::transposed, weights, transposed_filters_), dx,
        floats(scratch));
  convolve(shape_.transposed(), Weights::transposed, weights, transposed_filters_, dy, dx,
           floats(scratch));
}

void Convolution::weight_gradient(const float* x, const float* dy, float* weights,
                                  std::byte* scratch) const {
  if (input_ == ImageLayout::plain)
    return thin_weight_gradient(shape_, x, dy, weights, floats(scratch));
  if (direct_) return direct_->weight_gradient(x, dy, weights, scratch);
  if (method_ == Method::packed)
    return packed_weight_gradient(shape_, x, dy, weights, floats(scratch));
  winograd_weight_gradient(shape_, x, dy, weights, floats(scratch));
}

}  // namespace lockstep::kernels
