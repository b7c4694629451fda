#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace lockstep::matpow {

/// The smallest and largest value of each product, kept on the device, so that the host need not
/// wait to learn whether all are finite.
class Checks {
 public:
  /// For up to `most` products.
  Checks(c10::Device device, int64_t most);

  /// Begins with another product.
  void begin(std::string product);
  /// Takes values of the product that has begun, on the device's current stream.
  void add(const at::Tensor& values);

  /// The first product that has a NaN or an infinity; "" if there is none. The device must have
  /// computed all.
  std::string first_not_finite() const;

 private:
  at::Tensor extremes_;  ///< one row per product
  at::Tensor of_part_;
  std::vector<std::string> products_;
  bool has_values_ = false;  ///< of the product that has begun
};

/// Throws BadInput with the first product that is not finite.
void require_finite(const std::vector<Checks>& all);

}  // namespace lockstep::matpow
