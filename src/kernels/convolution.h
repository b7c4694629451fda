#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/conv_shape.h"
#include "kernels/direct_convolution.h"

namespace lockstep::kernels {

enum class Method { winograd, direct };

/// Which method serves a convolution: a rule on its shape, from measurements
/// (`bench/kernels.cpp`). Never by timing at run time: another method is other bits.
Method method_for(const ConvShape& shape, ImageLayout input);
const char* to_string(Method method);

/// Whether either method does: blocks of channels are whole (a plain input may have any number).
bool serves(const ConvShape& shape, ImageLayout input);

/// One layer's convolution for one shape of input. It keeps weights as its method wants them, until
/// it is told that they have changed.
class Convolution {
 public:
  Convolution(const ConvShape& shape, ImageLayout input);

  const ConvShape& shape() const { return shape_; }
  Method method() const { return direct_ ? Method::direct : Method::winograd; }
  /// What the functions below use of scratch memory.
  int64_t scratch_bytes() const;

  void weights_changed();

  /// `weights` are [out][in][kernel][kernel].
  void forward(const float* weights, const float* x, float* y, std::byte* scratch);
  /// Blocked inputs only.
  void input_gradient(const float* weights, const float* dy, float* dx, std::byte* scratch);
  void weight_gradient(const float* x, const float* dy, float* weights, std::byte* scratch) const;

 private:
  ConvShape shape_;
  ImageLayout input_;
  std::optional<DirectConvolution> direct_;
  // Winograd's; empty until they are needed, and where there are too many to be kept.
  std::vector<float> filters_;
  std::vector<float> transposed_filters_;
};

}  // namespace lockstep::kernels
