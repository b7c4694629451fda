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

/// y = relu(max over 2 x 2 of x + bias). `chosen` receives which of the four it was, or 4 if the
/// result is zero. `bias` may be null.
template <typename T>
void max_pool_relu(const PoolShape& shape, const T* x, const T* bias, T* y, uint8_t* chosen);

/// The gradient with respect to x, and per channel that with respect to bias (unless null).
template <typename T>
void max_pool_relu_gradient(const PoolShape& shape, const T* dy, const uint8_t* chosen, T* dx,
                            T* dbias);

/// Per channel the mean over pixels: y is [image][8].
template <typename T>
void mean_pool(int64_t images, int64_t pixels, const T* x, T* y);
template <typename T>
void mean_pool_gradient(int64_t images, int64_t pixels, const T* dy, T* dx);

}  // namespace lockstep::kernels
