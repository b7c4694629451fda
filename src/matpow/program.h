#pragma once

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "matpow/chain.h"
#include "matpow/lane.h"
#include "matpow/tiles.h"

namespace lockstep::matpow {

/// What is computed: matrices in the host's memory, pinned for the devices.
struct Matrices {
  at::Tensor a, b;
  at::Tensor sum;                  ///< A^n + B^n, the result
  std::vector<at::Tensor> spares;  ///< with tiles: two for each power; else none
};

/// The lanes of the devices that compute: one or two.
using Lanes = std::vector<DeviceLanes*>;

// The device programs: allocate, copy in, compute, copy out, free. Each device is driven by a
// thread of its own. With one device, A^n is computed before B^n; with two, each computes one of
// them, and the first one the sum.

/// Matrices are in the devices' memory as a whole.
void run_whole(const Lanes& lanes, const Matrices& matrices, const std::vector<Product>& chain);

/// Matrices stay in the host's memory, and devices multiply tiles of them.
void run_tiled(const Lanes& lanes, const Matrices& matrices, const std::vector<Product>& chain,
               const Tiles& tiles);

/// "A^4", and A itself for an exponent of 1.
inline std::string name_of_power(char matrix, int64_t exponent) {
  return exponent == 1 ? std::string(1, matrix) : fmt::format("{}^{}", matrix, exponent);
}

/// Raises a matrix to a power: calls `multiply(left, right, target, name)` for each product of the
/// chain. Returns the tensor with the power, which is `base`, `spare` or `other`; `base` stays as
/// it is.
template <typename Multiply>
at::Tensor raise(char matrix, const std::vector<Product>& chain, const at::Tensor& base,
                 const at::Tensor& spare, const at::Tensor& other, const Multiply& multiply) {
  at::Tensor reached = base;
  for (size_t i = 0; i < chain.size(); ++i) {
    const Product& product = chain[i];
    const at::Tensor& target = reached.is_same(spare) ? other : spare;
    const at::Tensor& right = product.by == Product::By::itself ? reached : base;
    multiply(reached, right, target,
             fmt::format("{} (product {} of {})", name_of_power(matrix, product.after()), i + 1,
                         chain.size()));
    reached = target;
  }
  return reached;
}

}  // namespace lockstep::matpow
