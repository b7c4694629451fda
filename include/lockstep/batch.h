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
///     const lockstep::Tensors inputs{{"left", left}, {"right", right}};
///     const lockstep::Tensors outputs = inputs["left"] + inputs["right"];
///     return outputs.only().sum();
class Tensors {
 public:
  /// A name and its tensor.
  using Item = std::pair<std::string, torch::Tensor>;

  Tensors() = default;
  /// A single tensor, without a name. Implicit: a model that has one output returns it.
  Tensors(torch::Tensor only)  // NOLINT(google-explicit-constructor): see above
      : items_{{"", std::move(only)}} {}
  /// Tensors in this order.
  Tensors(std::initializer_list<Item> items) : items_(items) {}
  /// The same.
  explicit Tensors(std::vector<Item> items) : items_(std::move(items)) {}

  /// The tensor with that name. Throws BadInput that lists the names there are.
  const torch::Tensor& operator[](std::string_view name) const;
  /// The only tensor. Throws BadInput unless there is exactly one.
  const torch::Tensor& only() const;

  /// How many tensors there are.
  size_t size() const { return items_.size(); }
  /// The first Item.
  auto begin() const { return items_.begin(); }
  /// Past the last Item.
  auto end() const { return items_.end(); }

 private:
  std::vector<Item> items_;
};

/// Samples side by side: dimension 0 of every tensor counts them.
struct Batch {
  Tensors inputs;       ///< what a model is given
  Tensors targets;      ///< what it should make of that
  int64_t samples = 0;  ///< how many
  int64_t items = 0;    ///< what they count as in a mean: samples, or tokens
};

}  // namespace lockstep
