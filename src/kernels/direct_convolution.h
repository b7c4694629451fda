#pragma once

#include <cstddef>
#include <memory>

#include "kernels/conv_shape.h"

namespace lockstep::kernels {

/// How a convolution's input lies; its result is always blocked.
enum class ImageLayout { blocked, plain };

/// A convolution by its definition: oneDNN's, made once for a shape and run many times. Of a plain
/// input it is the forward one only.
class DirectConvolution {
 public:
  DirectConvolution(const ConvShape& shape, ImageLayout input);
  ~DirectConvolution();
  DirectConvolution(DirectConvolution&&) noexcept;
  DirectConvolution& operator=(DirectConvolution&&) noexcept;

  /// What the functions below use of scratch memory, in bytes.
  int64_t scratch_bytes() const;

  /// Weights ([out][in][kernel][kernel]) are reordered when they are first used, and again after
  /// this.
  void weights_changed();

  void forward(const float* weights, const float* x, float* y, std::byte* scratch);
  void input_gradient(const float* weights, const float* dy, float* dx, std::byte* scratch);
  void weight_gradient(const float* x, const float* dy, float* weights, std::byte* scratch) const;

 private:
  struct Primitives;
  std::unique_ptr<Primitives> primitives_;
};

}  // namespace lockstep::kernels
