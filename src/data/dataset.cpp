#include "data/dataset.h"

#include <fmt/ranges.h>

#include "base/digest.h"

namespace lockstep::data {
namespace {

template <typename T>
void add_values(Digest& digest, const char* kind, const std::vector<T>& values) {
  // The kind and the count keep two data sets apart whose bytes happen to run on alike.
  digest.add(fmt::format("{} {}\n", kind, values.size()));
  digest.add(std::as_bytes(std::span(values)));
}

void add_dataset(Digest& digest, const Dataset& dataset) {
  digest.add(fmt::format("shape {}\n", to_string(dataset.shape)));
  if (const auto* bytes = std::get_if<std::vector<uint8_t>>(&dataset.values))
    add_values(digest, "bytes", *bytes);
  else
    add_values(digest, "floats", std::get<std::vector<float>>(dataset.values));
  add_values(digest, "labels", dataset.labels);
}

}  // namespace

int64_t elements(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t dimension : shape) product *= dimension;
  return product;
}

std::optional<int64_t> checked_elements(std::span<const int64_t> dimensions) {
  int64_t product = 1;
  for (const int64_t dimension : dimensions)
    if (dimension < 0 || __builtin_mul_overflow(product, dimension, &product)) return std::nullopt;
  return product;
}

std::string to_string(const Shape& shape) {
  return fmt::format("{}", fmt::join(shape, " x "));
}

std::string digest_of(const Dataset& train, const Dataset& test) {
  Digest digest(Digest::Kind::sha256);
  add_dataset(digest, train);
  add_dataset(digest, test);
  return digest.hex();
}

}  // namespace lockstep::data
