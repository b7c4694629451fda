#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/conv_shape.h"

namespace lockstep::kernels {

/// The layout of a convolution's input; its result is always blocked.
enum class ImageLayout { blocked, plain };

/// oneDNN's names for what computes the passes, such as "jit:avx2".
struct Implementations {
  std::string forward;
  std::string input_gradient;  ///< empty for a plain input
  std::string weight_gradient;
};

/// Whether an implementation that oneDNN names is one of its reference kernels, which are meant for
/// tests and slower by orders of magnitude.
bool is_reference(const std::string& implementation);

/// Whether oneDNN's settings allow it, on this processor.
bool direct_convolution_may_use_avx512();

/// What is reordered for oneDNN: weights alone, or also images to the layout that oneDNN prefers.
/// On processors with AVX-512 that is another one than ours, for which it has only kernels for
/// AVX2.
enum class Reordering { weights, images };

/// oneDNN's direct convolution, made once for a shape and run many times. For a plain input it has
/// no input gradient.
class DirectConvolution {
 public:
  DirectConvolution(const ConvShape& shape, ImageLayout input,
                    Reordering reordering = Reordering::weights);
  ~DirectConvolution();
  DirectConvolution(DirectConvolution&&) noexcept;
  DirectConvolution& operator=(DirectConvolution&&) noexcept;

  /// The scratch memory that the functions below need, in bytes.
  int64_t scratch_bytes() const;

  Implementations implementations() const;

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
