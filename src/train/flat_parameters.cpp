#include "train/flat_parameters.h"

#include "lockstep/error.h"

namespace lockstep::train {
namespace {

// Each parameter starts on a cache line of its own: kernels like aligned memory.
constexpr int64_t kAlignment = 16;

}  // namespace

FlatParameters::FlatParameters(torch::nn::Module& model) {
  torch::NoGradGuard no_grad;
  const auto named = model.named_parameters();
  int64_t end = 0;
  for (const auto& item : named) {
    const torch::Tensor& parameter = item.value();
    if (parameter.scalar_type() != torch::kFloat32)
      throw Error(fmt::format("parameter '{}' is not float32", item.key()));
    parameters_.push_back({item.key(), parameter.sizes().vec(), end, end + parameter.numel()});
    end = (end + parameter.numel() + kAlignment - 1) / kAlignment * kAlignment;
  }
  values_ = torch::zeros({end});
  gradients_ = torch::zeros({end});
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& place = parameters_[i];
    torch::Tensor parameter = named[i].value();
    torch::Tensor value = values_.slice(0, place.begin, place.end).view(place.shape);
    value.copy_(parameter);
    parameter.set_data(value);
    parameter.mutable_grad() = gradients_.slice(0, place.begin, place.end).view(place.shape);
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

}  // namespace lockstep::train
