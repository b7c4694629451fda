#include "parallel/same_model.h"

#include <fmt/format.h>

#include "base/agreement.h"
#include "parallel/tensor_buffer.h"

namespace lockstep::parallel {
namespace {

std::string describe(const torch::Tensor& tensor) {
  return fmt::format("{} {}", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), "x"));
}

}  // namespace

void require_same_model(const torch::nn::Module& model, collective::Communicator& group) {
  Facts facts;
  for (const auto& item : model.named_parameters())
    facts.emplace_back(fmt::format("parameter '{}'", item.key()),
                       fmt::format("{}{}", describe(item.value()),
                                   item.value().requires_grad() ? "" : ", not trained"));
  for (const auto& item : model.named_buffers())
    facts.emplace_back(fmt::format("buffer '{}'", item.key()), describe(item.value()));
  agree(facts, [&](const std::string& text) { return group.gather_texts(text); });
}

void broadcast_parameters(torch::nn::Module& model, collective::Communicator& group, int root) {
  torch::NoGradGuard no_grad;
  for (const auto& item : model.named_parameters()) {
    const torch::Tensor values = item.value().contiguous();
    group.broadcast(buffer_of(values, fmt::format("parameter '{}'", item.key())), root);
    if (values.data_ptr() != item.value().data_ptr()) item.value().copy_(values);
  }
}

}  // namespace lockstep::parallel
