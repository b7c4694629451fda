#pragma once

#include <cstdint>
#include <vector>

#include "kernels/conv_shape.h"
#include "kernels/products.h"

namespace lockstep::kernels {

/// The sums of a weights' gradient: for each tap, the same number of runs for each sample (or for
/// each group of them, if they are packed).
struct OuterPlan {
  std::vector<std::vector<Run>> runs_by_tap;  ///< of `samples`
  int64_t samples;
  int64_t x_block;   ///< from a block to its next one
  int64_t dy_block;  ///< the same
  int64_t x_spacing;
};

/// The images of a weights' gradient, packed or not.
struct OuterImages {
  const float* x;
  const float* dy;
  int64_t samples;  ///< or groups
};

/// The weights' gradient of a PackedConvolution.
class PackedWeightGradient {
 public:
  explicit PackedWeightGradient(const ConvShape& shape);

  /// In numbers.
  int64_t scratch_count() const;
  void compute(const float* x, const float* dy, float* weights, float* memory) const;

 private:
  OuterImages prepared_images(const float* x, const float* dy, int64_t first, int64_t samples,
                              float* memory) const;

  ConvShape whole_;  ///< with the pixels that are skipped
  ConvShape shape_;
  OuterPlan plan_;
  int64_t samples_at_once_;
};

}  // namespace lockstep::kernels
