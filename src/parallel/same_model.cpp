#include "parallel/same_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/agreement.h"
#include "parallel/tensor_buffer.h"

namespace lockstep::parallel {

// Strides too: gradients have the strides of their parameters, and are added in the order of
// memory.
std::string describe_parameter(const torch::Tensor& parameter) {
  std::string text = describe(parameter);
  if (!parameter.is_contiguous() && parameter.is_non_overlapping_and_dense())
    text += fmt::format(" of strides {}", fmt::join(parameter.strides(), ", "));
  return parameter.requires_grad() ? text : text + ", not trained";
}

void require_same_model(const torch::nn::Module& model, collective::Communicator& group) {
  Facts facts;
  for (const auto& item : model.named_parameters())
    facts.emplace_back(fmt::format("parameter '{}'", item.key()), describe_parameter(item.value()));
  for (const auto& item : model.named_buffers())
    facts.emplace_back(fmt::format("buffer '{}'", item.key()), describe(item.value()));
  agree(facts, [&](const std::string& text) { return group.gather_texts(text); });
}

}  // namespace lockstep::parallel
