#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace lockstep::kernels {

/// Numbers between -1 and 1.
template <typename T>
std::vector<T> random_numbers(size_t count, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<T> between(-1, 1);
  std::vector<T> numbers(count);
  for (T& number : numbers) number = between(generator);
  return numbers;
}

/// The largest difference, relative to the largest number.
template <typename T>
double difference(const std::vector<T>& a, const std::vector<T>& b) {
  double most = 0, largest = 1e-30;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return INFINITY;
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return a.size() == b.size() ? most / largest : INFINITY;
}

}  // namespace lockstep::kernels
