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

enum class Rectify { no, yes };

template <typename T>
struct Affine {
  const T* mean;
  const T* scale;
  const T* shift;
};

template <typename T>
struct GradientSums {
  T* of_g;
  T* of_g_x;
};

template <typename T>
struct GradientTerms {
  const T* mean;
  const T* of_g;
  const T* of_x;
  const T* constant;
};

/// Passes over blocked images, compiled for AVX2 and for AVX-512, with the same bits. In those of
/// gradients, g is dy, or zero where the activation was zero: `y` is its result, or null where
/// there was none.
template <typename T>
struct BatchNorm {
  /// Mean and variance (biased) of every channel over samples and pixels.
  void (*statistics)(const ImageShape&, const T* x, T* mean, T* variance);

  /// Per channel: y = activation((x - mean) * scale + shift + residual). `residual` may be null.
  void (*normalise)(const ImageShape&, const T* x, const Affine<T>&, const T* residual, Rectify,
                    T* y);

  /// Per channel, the sums over samples and pixels of g and of g * (x - mean). Writes g to `masked`
  /// unless that is null.
  void (*gradient_sums)(const ImageShape&, const T* dy, const T* y, const T* x, const T* mean,
                        const GradientSums<T>&, T* masked);

  /// Per channel: dx = g * of_g + (x - mean) * of_x + constant.
  void (*input_gradient)(const ImageShape&, const T* dy, const T* y, const T* x,
                         const GradientTerms<T>&, T* dx);
};

/// Those for this processor.
template <typename T>
const BatchNorm<T>& batch_norm();
template <>
const BatchNorm<float>& batch_norm();
template <>
const BatchNorm<double>& batch_norm();

namespace avx2 {
extern const BatchNorm<float> kBatchNorm;
extern const BatchNorm<double> kBatchNormOfDoubles;
}  // namespace avx2
namespace avx512 {
extern const BatchNorm<float> kBatchNorm;
}  // namespace avx512

}  // namespace lockstep::kernels
