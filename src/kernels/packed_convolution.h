#pragma once

#include <cstdint>
#include <memory>

#include "kernels/conv_shape.h"
#include "kernels/winograd.h"

namespace lockstep::kernels {

/// A convolution of blocked images by its definition: a kernel of any size, stride and padding,
/// multiples of 8 channels.
class PackedConvolution {
 public:
  explicit PackedConvolution(const ConvShape& shape);

  /// The size of the scratch memory that the functions below need, in numbers.
  int64_t scratch_count() const;

  /// Weights in the order of the functions below. Where they would be used for one group of samples
  /// only, they are not worth their memory: then these functions take the weights, as LibTorch lays
  /// them out, in place of filters.
  bool holds_filters(Weights kind) const;
  int64_t filter_count(Weights kind) const;
  void make_filters(Weights kind, const float* weights, float* filters) const;

  /// y = x convolved; with filters of Weights::plain.
  void forward(const float* x, const float* filters, float* y, float* memory) const;
  /// With filters of Weights::transposed.
  void input_gradient(const float* dy, const float* filters, float* dx, float* memory) const;
  /// `weights` are as LibTorch lays them out.
  void weight_gradient(const float* x, const float* dy, float* weights, float* memory) const;

 private:
  struct Plan;
  std::shared_ptr<const Plan> plan_;
};

}  // namespace lockstep::kernels
