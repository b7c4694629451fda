#pragma once

#include <cstdint>
#include <vector>

#include "kernels/conv_shape.h"
#include "kernels/lanes.h"

/// Convolutions over blocked images, one number after another.
namespace lockstep::kernels {

/// Where a blocked image has a channel's pixel.
inline size_t at(int64_t sample, int64_t channels, int64_t channel, int64_t height, int64_t width,
                 int64_t y, int64_t x) {
  const int64_t block = sample * (channels / kLanes) + channel / kLanes;
  return static_cast<size_t>(((block * height + y) * width + x) * kLanes + channel % kLanes);
}

inline size_t x_count(const ConvShape& s) {
  return static_cast<size_t>(s.samples * s.in_channels * s.in_height * s.in_width);
}
inline size_t y_count(const ConvShape& s) {
  return static_cast<size_t>(s.samples * s.out_channels * s.out_height() * s.out_width());
}
inline size_t weight_count(const ConvShape& s) {
  return static_cast<size_t>(s.out_channels * s.in_channels * s.kernel * s.kernel);
}

/// Calls `visit(y, x, weight)` with the three places of every product.
template <typename Visit>
void for_products(const ConvShape& s, Visit visit) {
  for (int64_t n = 0; n < s.samples; ++n)
    for (int64_t out = 0; out < s.out_channels; ++out)
      for (int64_t in = 0; in < s.in_channels; ++in)
        for (int64_t oy = 0; oy < s.out_height(); ++oy)
          for (int64_t ox = 0; ox < s.out_width(); ++ox)
            for (int64_t ky = 0; ky < s.kernel; ++ky)
              for (int64_t kx = 0; kx < s.kernel; ++kx) {
                const int64_t iy = oy * s.stride + ky - s.padding;
                const int64_t ix = ox * s.stride + kx - s.padding;
                if (iy < 0 || ix < 0 || iy >= s.in_height || ix >= s.in_width) continue;
                visit(at(n, s.out_channels, out, s.out_height(), s.out_width(), oy, ox),
                      at(n, s.in_channels, in, s.in_height, s.in_width, iy, ix),
                      static_cast<size_t>(((out * s.in_channels + in) * s.kernel + ky) * s.kernel +
                                          kx));
              }
}

}  // namespace lockstep::kernels
