#pragma once

#include <cstdint>

/// The transforms of Winograd's F(4 x 4, 3 x 3) in one dimension, with the points 0, 1, -1, 2, -2
/// and infinity, over numbers that lie `kStride` apart; results `kOutStride` apart. A number is one
/// pixel of one block.
namespace lockstep::kernels {

/// Six inputs to six points.
template <int64_t kStride, int64_t kOutStride, typename V>
[[gnu::always_inline]] inline void transform_input(const V* d, V* out) {
  const V d0 = d[0], d1 = d[kStride], d2 = d[2 * kStride];
  const V d3 = d[3 * kStride], d4 = d[4 * kStride], d5 = d[5 * kStride];
  const V even = d4 - 4 * d2, odd = d3 - 4 * d1;
  const V near = d4 - d2, far = 2 * (d3 - d1);
  out[0] = 4 * d0 - 5 * d2 + d4;
  out[kOutStride] = even + odd;
  out[2 * kOutStride] = even - odd;
  out[3 * kOutStride] = near + far;
  out[4 * kOutStride] = near - far;
  out[5 * kOutStride] = 4 * d1 - 5 * d3 + d5;
}

/// Six points to four results.
template <int64_t kStride, int64_t kOutStride, typename V>
[[gnu::always_inline]] inline void transform_result(const V* m, V* out) {
  const V sum1 = m[kStride] + m[2 * kStride], difference1 = m[kStride] - m[2 * kStride];
  const V sum2 = m[3 * kStride] + m[4 * kStride], difference2 = m[3 * kStride] - m[4 * kStride];
  out[0] = m[0] + sum1 + sum2;
  out[kOutStride] = difference1 + 2 * difference2;
  out[2 * kOutStride] = sum1 + 4 * sum2;
  out[3 * kOutStride] = difference1 + 8 * difference2 + m[5 * kStride];
}

/// transform_result's transpose.
template <int64_t kStride, int64_t kOutStride, typename V>
[[gnu::always_inline]] inline void spread_gradient(const V* y, V* out) {
  const V y0 = y[0], y1 = y[kStride], y2 = y[2 * kStride], y3 = y[3 * kStride];
  const V even = y0 + y2, odd = y1 + y3;
  const V even2 = y0 + 4 * y2, odd2 = 2 * y1 + 8 * y3;
  out[0] = y0;
  out[kOutStride] = even + odd;
  out[2 * kOutStride] = even - odd;
  out[3 * kOutStride] = even2 + odd2;
  out[4 * kOutStride] = even2 - odd2;
  out[5 * kOutStride] = y3;
}

/// Three taps to six points.
template <typename T, int64_t kStride, int64_t kOutStride, typename V>
[[gnu::always_inline]] inline void transform_filter(const V* g, V* out) {
  const V g0 = g[0], g1 = g[kStride], g2 = g[2 * kStride];
  const V even = (g0 + g2) * T(-1.0 / 6), odd = g1 * T(-1.0 / 6);
  const V even2 = g0 * T(1.0 / 24) + g2 * T(1.0 / 6), odd2 = g1 * T(1.0 / 12);
  out[0] = g0 * T(0.25);
  out[kOutStride] = even + odd;
  out[2 * kOutStride] = even - odd;
  out[3 * kOutStride] = even2 + odd2;
  out[4 * kOutStride] = even2 - odd2;
  out[5 * kOutStride] = g2;
}

/// transform_filter's transpose.
template <typename T, int64_t kStride, int64_t kOutStride, typename V>
[[gnu::always_inline]] inline void gather_filter(const V* u, V* out) {
  const V sum1 = (u[kStride] + u[2 * kStride]) * T(-1.0 / 6);
  const V sum2 = u[3 * kStride] + u[4 * kStride];
  out[0] = u[0] * T(0.25) + sum1 + sum2 * T(1.0 / 24);
  out[kOutStride] =
      (u[2 * kStride] - u[kStride]) * T(1.0 / 6) + (u[3 * kStride] - u[4 * kStride]) * T(1.0 / 12);
  out[2 * kOutStride] = sum1 + sum2 * T(1.0 / 6) + u[5 * kStride];
}

}  // namespace lockstep::kernels
