#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// Blocked images: `samples` x `blocks` x `pixels` x 8 channels.
struct ImageShape {
  int64_t samples = 0;
  int64_t blocks = 0;
  int64_t pixels = 0;

  int64_t channels() const { return blocks * 8; }
  int64_t count() const { return samples * channels() * pixels; }
};

/// Mean and variance (biased) of every channel over samples and pixels.
template <typename T>
void channel_statistics(const ImageShape& shape, const T* x, T* mean, T* variance);

enum class Rectify { no, yes };

/// Per channel: y = activation((x - mean) * scale + shift + residual). `residual` may be null.
template <typename T>
struct Affine {
  const T* mean;
  const T* scale;
  const T* shift;
};
template <typename T>
void normalise(const ImageShape& shape, const T* x, const Affine<T>& affine, const T* residual,
               Rectify rectify, T* y);

/// Per channel, the sums over samples and pixels of g and of g * (x - mean), where g is dy, or zero
/// where the activation was zero: `y` is its result, or null where there was none. Writes g to
/// `masked` unless that is null.
template <typename T>
struct GradientSums {
  T* of_g;
  T* of_g_x;
};
template <typename T>
void gradient_sums(const ImageShape& shape, const T* dy, const T* y, const T* x, const T* mean,
                   const GradientSums<T>& sums, T* masked);

/// Per channel: dx = g * of_g + (x - mean) * of_x + constant, with g as above.
template <typename T>
struct GradientTerms {
  const T* mean;
  const T* of_g;
  const T* of_x;
  const T* constant;
};
template <typename T>
void input_gradient(const ImageShape& shape, const T* dy, const T* y, const T* x,
                    const GradientTerms<T>& terms, T* dx);

}  // namespace lockstep::kernels
