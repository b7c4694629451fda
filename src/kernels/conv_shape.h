#pragma once

#include <cstdint>

namespace lockstep::kernels {

constexpr int64_t divide_up(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}

/// A convolution of square filters over images.
struct ConvShape {
  int64_t samples = 1;
  int64_t in_channels = 0;
  int64_t in_height = 0;
  int64_t in_width = 0;
  int64_t out_channels = 0;
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t padding = 1;

  int64_t out_height() const { return (in_height + 2 * padding - kernel) / stride + 1; }
  int64_t out_width() const { return (in_width + 2 * padding - kernel) / stride + 1; }

  /// Numbers of one sample's input and result.
  int64_t input_size() const { return in_channels * in_height * in_width; }
  int64_t result_size() const { return out_channels * out_height() * out_width(); }

  int64_t weight_count() const { return out_channels * in_channels * kernel * kernel; }

  ConvShape with_samples(int64_t count) const {
    ConvShape shape = *this;
    shape.samples = count;
    return shape;
  }

  /// Whether filters mostly lie on padding.
  bool is_smaller_than_filters() const { return in_height < kernel || in_width < kernel; }

  /// Multiplications and additions of one pass by the definition.
  double operations() const {
    return 2.0 * static_cast<double>(samples * out_channels * out_height() * out_width()) *
           static_cast<double>(in_channels * kernel * kernel);
  }

  /// The convolution that takes the gradient of this one's result to that of its input. Stride 1.
  ConvShape transposed() const {
    return {.samples = samples,
            .in_channels = out_channels,
            .in_height = out_height(),
            .in_width = out_width(),
            .out_channels = in_channels,
            .kernel = kernel,
            .stride = 1,
            .padding = kernel - 1 - padding};
  }

  bool operator==(const ConvShape&) const = default;
};

}  // namespace lockstep::kernels
