#include "kernels/convolution.h"

#include <algorithm>

#include "kernels/lanes.h"
#include "kernels/thin_convolution.h"
#include "kernels/winograd.h"

namespace lockstep::kernels {
namespace {

// Below it a tile of 4 x 4 results is mostly empty.
constexpr int64_t kLeastSideForWinograd = 3;

float* floats(std::byte* scratch) {
  return reinterpret_cast<float*>(scratch);
}

// A Winograd convolution; `filters` are made if they are to be kept and are not there.
void convolve(const ConvShape& shape, Weights kind, const float* weights,
              std::vector<float>& filters, const float* x, float* y, float* scratch) {
  if (!winograd_holds_filters(shape)) return winograd_convolve(shape, x, kind, weights, y, scratch);
  if (filters.empty()) {
    filters.resize(static_cast<size_t>(winograd_filter_count(shape)));
    winograd_filters(shape, kind, weights, filters.data());
  }
  winograd_convolve(shape, x, filters.data(), y, scratch);
}

}  // namespace

Method method_for(const ConvShape& shape, ImageLayout input) {
  const bool fills_tiles = std::min(shape.out_height(), shape.out_width()) >= kLeastSideForWinograd;
  return input == ImageLayout::blocked && fills_tiles && winograd_serves(shape) ? Method::winograd
                                                                                : Method::direct;
}

const char* to_string(Method method) {
  return method == Method::winograd ? "winograd" : "direct";
}

bool serves(const ConvShape& shape, ImageLayout input) {
  return shape.out_channels % kLanes == 0 &&
         (input == ImageLayout::plain || shape.in_channels % kLanes == 0) &&
         std::min(shape.in_height, shape.in_width) + 2 * shape.padding >= shape.kernel;
}

Convolution::Convolution(const ConvShape& shape, ImageLayout input) : shape_(shape), input_(input) {
  if (method_for(shape, input) == Method::direct) direct_.emplace(shape, input);
}

int64_t Convolution::scratch_bytes() const {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  if (input_ == ImageLayout::plain)
    return std::max(direct_->scratch_bytes(), kFloat * thin_scratch_count(shape_));
  if (direct_) return direct_->scratch_bytes();
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
  convolve(shape_, Weights::plain, weights, filters_, x, y, floats(scratch));
}

void Convolution::input_gradient(const float* weights, const float* dy, float* dx,
                                 std::byte* scratch) {
  if (direct_) return direct_->input_gradient(weights, dy, dx, scratch);
  convolve(shape_.transposed(), Weights::transposed, weights, transposed_filters_, dy, dx,
           floats(scratch));
}

void Convolution::weight_gradient(const float* x, const float* dy, float* weights,
                                  std::byte* scratch) const {
  if (input_ == ImageLayout::plain)
    return thin_weight_gradient(shape_, x, dy, weights, floats(scratch));
  if (direct_) return direct_->weight_gradient(x, dy, weights, scratch);
  winograd_weight_gradient(shape_, x, dy, weights, floats(scratch));
}

}  // namespace lockstep::kernels
