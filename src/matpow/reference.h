#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep::matpow {

/// (A^n + B^n) x for some random vectors x, by matrix-vector products in double precision on the
/// host: a second method, which has nothing in common with products of matrices, and takes
/// n size^2 instead of size^3 operations. A wrong element of A^n + B^n changes the result for
/// almost all x (Freivalds' test).
class Reference {
 public:
  /// Throws BadInput if the powers are too small for float32.
  Reference(const at::Tensor& a, const at::Tensor& b, int64_t power, uint64_t seed);

  /// The largest difference of an element of `sum` x from the reference, relative to the largest
  /// element of the reference.
  double error_of(const at::Tensor& sum) const;

 private:
  at::Tensor vectors_;   ///< as columns
  at::Tensor expected_;  ///< for each of them
};

/// Larger errors mean that a result is wrong. Rounding makes about 1e-6 at the usual scale.
inline constexpr double kTolerance = 1e-3;

}  // namespace lockstep::matpow
