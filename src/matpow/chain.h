#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::matpow {

/// One product on the way to a power of a matrix A: the power so far is multiplied by itself, or by
/// A.
struct Product {
  enum class By { itself, base };

  By by = By::itself;
  int64_t before = 1;  ///< exponent of the power so far

  int64_t after() const { return by == By::itself ? 2 * before : before + 1; }
  bool operator==(const Product&) const = default;
};

enum class Method {
  squaring,  ///< at most 2 log2(n) products
  naive,     ///< n - 1 products
};

/// The products that make A^power out of A. For 10 by squaring: A^2, A^4, A^5, A^10. Throws
/// BadInput if `power` is not 1 to 1000.
std::vector<Product> chain_of(int64_t power, Method method);

}  // namespace lockstep::matpow
