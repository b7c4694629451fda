#include "matpow/checks.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::matpow {

Checks::Checks(c10::Device device, int64_t most)
    : extremes_(at::empty({most, 2}, at::device(device).dtype(at::kFloat))),
      of_part_(at::empty({2}, extremes_.options())) {}

void Checks::begin(std::string product) {
  products_.push_back(std::move(product));
  has_values_ = false;
}

// LibTorch's smallest and largest values are NaN if one of the values is.
void Checks::add(const at::Tensor& values) {
  const at::Tensor row = extremes_[static_cast<int64_t>(products_.size()) - 1];
  at::Tensor smallest = row[0], largest = row[1], low = of_part_[0], high = of_part_[1];
  if (!std::exchange(has_values_, true)) {
    at::aminmax_out(smallest, largest, values);
    return;
  }
  at::aminmax_out(low, high, values);
  at::minimum_out(smallest, smallest, low);
  at::maximum_out(largest, largest, high);
}

std::string Checks::first_not_finite() const {
  const at::Tensor extremes = extremes_.cpu();
  const auto values = extremes.accessor<float, 2>();
  for (size_t i = 0; i < products_.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    if (!std::isfinite(values[row][0]) || !std::isfinite(values[row][1])) return products_[i];
  }
  return "";
}

void require_finite(const std::vector<Checks>& all) {
  for (const Checks& checks : all)
    if (const std::string product = checks.first_not_finite(); !product.empty())
      throw BadInput("{} has a NaN or an infinity; give a smaller --scale or --power", product);
}

}  // namespace lockstep::matpow
