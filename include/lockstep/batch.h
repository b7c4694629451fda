#pragma once

#include <torch/types.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// Tensors with names, in an order. Where there is only one, its name does not matter:
///
///     Tensors forward(const Tensors& inputs) override { return fc(inputs.only()); }
class Tensors {
 public:
  using Item = std::pair<std::string, torch::Tensor>;

  Tensors() = default;
  Tensors(torch::Tensor only) : items_{{"", std::move(only)}} {}
  Tensors(std::initializer_list<Item> items) : items_(items) {}
  explicit Tensors(std::vector<Item> items) : items_(std::move(items)) {}

  /// Throws BadInput that lists the names there are.
  const torch::Tensor& operator[](std::string_view name) const;
  /// Throws BadInput unless there is exactly one.
  const torch::Tensor& only() const;

  size_t size() const { return items_.size(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::vector<Item> items_;
};

/// Samples side by side: dimension 0 of every tensor counts them.
struct Batch {
  Tensors inputs;
  Tensors targets;
  int64_t samples = 0;
  int64_t items = 0;  ///< what they count as in a mean: samples, or tokens
};

}  // namespace lockstep
