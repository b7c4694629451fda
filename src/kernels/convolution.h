#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/conv_shape.h"
#include "kernels/direct_convolution.h"
#include "kernels/filters.h"
#include "kernels/packed_convolution.h"

namespace lockstep::kernels {

enum class Method { winograd, packed, direct };

/// The method for a convolution: a fixed rule on its shape, based on measurements
/// (`bench/kernel_sweep.cpp`). Never chosen by timing at run time, because other methods give other
/// bits.
Method method_for(const ConvShape& shape, ImageLayout input);
const char* to_string(Method method);

/// Whether a method supports it: numbers of channels must be multiples of 8 (a plain input must
/// have fewer than 8), and there must be a kernel that is no reference.
bool serves(const ConvShape& shape, ImageLayout input);

/// One layer's convolution for one shape of input. It keeps the weights in the form that its method
/// needs, until it is told that they have changed.
class Convolution {
 public:
  Convolution(const ConvShape& shape, ImageLayout input);

  const ConvShape& shape() const { return shape_; }
  Method method() const { return method_; }
  /// oneDNN's names for the passes that it computes; empty for those that are ours.
  Implementations implementations() const;
  /// The scratch memory that the functions below need.
  int64_t scratch_bytes() const;
  /// The memory of prepared weights that it keeps, at most.
  int64_t kept_bytes() const;

  void weights_changed();

  /// `weights` are [out][in][kernel][kernel].
  void forward(const float* weights, const float* x, float* y, std::byte* scratch);
  /// Blocked inputs only.
  void input_gradient(const float* weights, const float* dy, float* dx, std::byte* scratch);
  void weight_gradient(const float* x, const float* dy, float* weights, std::byte* scratch) const;

 private:
  ConvShape shape_;
  Method method_;
  bool has_thin_gradient_ = false;  ///< the weights' gradient of a plain input is not oneDNN's
  std::optional<DirectConvolution> direct_;
  std::optional<PackedConvolution> packed_;
  // Empty until they are needed, and for Winograd's layers with too many weights to keep them.
  Filters filters_;
  Filters transposed_filters_;
};

}  // namespace lockstep::kernels
