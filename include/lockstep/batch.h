#pragma once

#include <torch/types.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// Named tensors, in a fixed order. If there is only one, its name does not matter:
///
///     const lockstep::Tensors inputs{{"left", left}, {"right", right}};
///     const lockstep::Tensors outputs = inputs["left"] + inputs["right"];
///     return outputs.only().sum();
class Tensors {
 public:
  /// A name and its tensor.
  using Item = std::pair<std::string, torch::Tensor>;

  Tensors() = default;
  /// One tensor, without a name. Implicit, so that a model with one output can return the tensor.
  Tensors(torch::Tensor only)  // NOLINT(google-explicit-constructor): see above
      : items_{{"", std::move(only)}} {}
  /// Several tensors, in this order.
  Tensors(std::initializer_list<Item> items) : items_(items) {}
  /// The same.
  explicit Tensors(std::vector<Item> items) : items_(std::move(items)) {}

  /// The tensor with this name. If there is none, throws BadInput with a list of all names.
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

/// Samples, stacked: dimension 0 of every tensor is the sample.
struct Batch {
  Tensors inputs;       ///< the arguments of the model
  Tensors targets;      ///< the expected outputs
  int64_t samples = 0;  ///< number of samples
  int64_t items = 0;    ///< weight of the batch in means: number of samples, or of tokens
};

}  // namespace lockstep
