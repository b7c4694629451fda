#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// Images to be pooled 2 x 2; an odd last row or column is ignored.
struct PoolShape {
  int64_t images = 0;  ///< samples times blocks
  int64_t blocks = 0;  ///< of channels
  int64_t height = 0;
  int64_t width = 0;

  int64_t out_height() const { return height / 2; }
  int64_t out_width() const { return width / 2; }
  int64_t out_count() const { return images * out_height() * out_width() * 8; }
};

/// Passes over blocked images, compiled for AVX2 and for AVX-512, with the same bits.
template <typename T>
struct Pooling {
  /// y = relu(max over 2 x 2 of x + bias). `chosen` receives which of the four it was, or 4 if the
  /// result is zero. `bias` may be null.
  void (*max_relu)(const PoolShape&, const T* x, const T* bias, T* y, uint8_t* chosen);

  /// The gradient with respect to x, and per channel that with respect to bias (unless null).
  void (*max_relu_gradient)(const PoolShape&, const T* dy, const uint8_t* chosen, T* dx, T* dbias);

  /// Per channel the mean over pixels: y is [image][8].
  void (*mean)(int64_t images, int64_t pixels, const T* x, T* y);
  void (*mean_gradient)(int64_t images, int64_t pixels, const T* dy, T* dx);
};

/// Those for this processor.
template <typename T>
const Pooling<T>& pooling();
template <>
const Pooling<float>& pooling();
template <>
const Pooling<double>& pooling();

namespace avx2 {
extern const Pooling<float> kPooling;
extern const Pooling<double> kPoolingOfDoubles;
}  // namespace avx2
namespace avx512 {
extern const Pooling<float> kPooling;
}  // namespace avx512

}  // namespace lockstep::kernels
