#include "parallel/flat_parameters.h"

#include <utility>

#include "lockstep/error.h"

namespace lockstep::parallel {

FlatParameters::FlatParameters(const Parameters& parameters, const GradientLayout& layout,
                               torch::Tensor memory)
    : values_(std::move(memory)) {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  torch::NoGradGuard no_grad;
  for (const auto& bucket : layout.buckets)
    for (const size_t i : bucket.parameters) {
      torch::Tensor parameter = parameters.tensors[i];
      if (parameter.scalar_type() != torch::kFloat32)
        throw BadInput("parameter '{}' is not float32", parameters.names[i]);
      const int64_t begin = layout.places[i].begin / kFloat;
      parameters_.push_back(
          {parameters.names[i], parameter.sizes().vec(), begin, begin + parameter.numel()});
      placed_.push_back(
          {parameter, values_.slice(0, begin, begin + parameter.numel()).view(parameter.sizes())});
    }
  collect();
}

void FlatParameters::collect() {
  torch::NoGradGuard no_grad;
  for (auto& [parameter, place] : placed_) {
    if (parameter.data_ptr() == place.data_ptr()) continue;
    place.copy_(parameter);
    parameter.set_data(place);
  }
}

int64_t FlatParameters::count() const {
  int64_t count = 0;
  for (const Parameter& parameter : parameters_) count += parameter.end - parameter.begin;
  return count;
}

std::vector<optim::Section> FlatParameters::sections(bool decay_bias_and_norm) const {
  std::vector<optim::Section> sections;
  for (const Parameter& parameter : parameters_)
    sections.push_back(
        {parameter.begin, parameter.end, decay_bias_and_norm || parameter.shape.size() > 1});
  return sections;
}

}  // namespace lockstep::parallel
