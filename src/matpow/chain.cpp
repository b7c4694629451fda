// By squaring: the power's binary digits are read from the left. The first one stands for A; each
// other one squares the power so far, and a digit 1 then multiplies it by A.
#include "matpow/chain.h"

#include <bit>

#include "lockstep/error.h"

namespace lockstep::matpow {

std::vector<Product> chain_of(int64_t power, Method method) {
  constexpr int64_t kMost = 1000;
  if (power < 1 || power > kMost) throw BadInput("--power {}: expected 1 to {}", power, kMost);
  std::vector<Product> chain;
  int64_t reached = 1;
  const auto multiply = [&](Product::By by) {
    chain.push_back({by, reached});
    reached = chain.back().after();
  };
  if (method == Method::naive) {
    while (reached < power) multiply(Product::By::base);
    return chain;
  }
  for (int digit = std::bit_width(static_cast<uint64_t>(power)) - 2; digit >= 0; --digit) {
    multiply(Product::By::itself);
    if ((power >> digit & 1) != 0) multiply(Product::By::base);
  }
  return chain;
}

}  // namespace lockstep::matpow
