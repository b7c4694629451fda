#include "train/outputs.h"

#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include "lockstep/error.h"

namespace lockstep::train {
namespace {

[[noreturn]] void refuse_missing(const Tensors& outputs, const Field& field) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : outputs) names.push_back(fmt::format("'{}'", name));
  throw BadInput("the model's forward() returned {}, but the objective expects '{}'",
                 names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", ")), field.name);
}

// With one output on both sides, its name does not matter.
const Tensors::Item& output_for(const Field& field, size_t expected, const Tensors& outputs) {
  if (expected == 1 && outputs.size() == 1) return *outputs.begin();
  const auto found = std::find_if(outputs.begin(), outputs.end(),
                                  [&](const auto& item) { return item.first == field.name; });
  if (found == outputs.end()) refuse_missing(outputs, field);
  return *found;
}

std::vector<int64_t> sizes_for(const Field& field, int64_t samples) {
  std::vector<int64_t> sizes = {samples};
  sizes.insert(sizes.end(), field.shape.begin(), field.shape.end());
  return sizes;
}

void check_output(const torch::Tensor& output, const Field& field, int64_t samples) {
  const std::vector<int64_t> sizes = sizes_for(field, samples);
  if (!output.defined())
    throw BadInput("the model's forward() returned an undefined tensor for '{}'", field.name);
  const int64_t count =
      std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  if (output.dim() == 0 || output.size(0) != samples || output.numel() != count)
    throw BadInput(
        "the model's forward() returned '{}' of shape [{}]: expected [{}], {} sample{} and the "
        "shape that the objective declares",
        field.name, fmt::join(output.sizes(), ", "), fmt::join(sizes, ", "), samples,
        samples == 1 ? "" : "s");
}

}  // namespace

Tensors forward_of(const parallel::ModelPart& part, const Tensors& inputs, const CallPlace& place) {
  return call_user_code("the model's forward()", place, [&] { return part.forward(inputs); });
}

Tensors outputs_of(const parallel::ModelPart& part, const Tensors& inputs,
                   const std::vector<Field>& expected, const CallPlace& place) {
  Tensors outputs = forward_of(part, inputs, place);
  bool fit = true;
  for (const Field& field : expected) {
    const torch::Tensor& output = output_for(field, expected.size(), outputs).second;
    check_output(output, field, place.samples);
    fit &= output.dim() == static_cast<int64_t>(field.shape.size()) + 1 &&
           std::equal(field.shape.begin(), field.shape.end(), output.sizes().begin() + 1);
  }
  if (fit) return outputs;
  std::vector<Tensors::Item> reshaped(outputs.begin(), outputs.end());
  for (const Field& field : expected) {
    const Tensors::Item& output = output_for(field, expected.size(), outputs);
    reshaped[static_cast<size_t>(&output - &*outputs.begin())].second =
        output.second.reshape(sizes_for(field, place.samples));
  }
  return Tensors(std::move(reshaped));
}

}  // namespace lockstep::train
