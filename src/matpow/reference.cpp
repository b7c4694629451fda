#include "matpow/reference.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "lockstep/error.h"

namespace lockstep::matpow {
namespace {

// A float matrix times double columns. A few rows at a time, since the matrix in double precision
// would take twice its memory.
at::Tensor times(const at::Tensor& matrix, const at::Tensor& columns) {
  constexpr int64_t kRows = 256;
  at::Tensor result = at::empty_like(columns);
  for (int64_t row = 0; row < matrix.size(0); row += kRows) {
    const int64_t end = std::min(row + kRows, matrix.size(0));
    at::Tensor part = result.slice(0, row, end);
    at::mm_out(part, matrix.slice(0, row, end).to(at::kDouble), columns);
  }
  return result;
}

at::Tensor times_power(const at::Tensor& matrix, int64_t power, at::Tensor columns) {
  for (int64_t i = 0; i < power; ++i) columns = times(matrix, columns);
  return columns;
}

}  // namespace

Reference::Reference(const at::Tensor& a, const at::Tensor& b, int64_t power, uint64_t seed) {
  constexpr int64_t kVectors = 4;
  vectors_ = at::empty({a.size(0), kVectors}, at::kDouble)
                 .uniform_(-1, 1, at::detail::createCPUGenerator(seed));
  expected_ = times_power(a, power, vectors_) + times_power(b, power, vectors_);
  constexpr double kVanishing = 1e-30;  // float32's smallest full-precision number is 1e-38
  const auto largest = expected_.abs().max().item<double>();
  if (largest < kVanishing)
    throw BadInput(
        "the powers vanish: elements of (A^{0} + B^{0}) x are at most {1:.1e}, too small "
        "for float32; give a larger --scale or a smaller --power",
        power, largest);
}

double Reference::error_of(const at::Tensor& sum) const {
  const auto difference = (times(sum, vectors_) - expected_).abs().max().item<double>();
  return difference / expected_.abs().max().item<double>();
}

}  // namespace lockstep::matpow
