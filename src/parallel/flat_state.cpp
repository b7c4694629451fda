#include "parallel/flat_state.h"

#include <ATen/MemoryOverlap.h>
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "lockstep/error.h"
#include "parallel/tensor_buffer.h"

namespace lockstep::parallel {
namespace {

constexpr size_t kWord = sizeof(int32_t);

void check_state(const StateTensor& state) {
  if (at::has_internal_overlap(state.tensor) == at::MemOverlap::Yes)
    throw BadInput("{} is expanded, so that its elements share memory; register a .clone()",
                   state.name);
}

// Without autograd noticing: earlier forward passes may have saved these tensors.
void copy_bytes(const torch::Tensor& from, const torch::Tensor& to) {
  const bool on_host = from.device().is_cpu() && to.device().is_cpu();
  if (on_host && from.is_contiguous() && to.is_contiguous())
    std::memcpy(to.data_ptr(), from.data_ptr(), to.nbytes());
  else
    to.variable_data().copy_(from);
}

}  // namespace

int64_t aligned_bytes(const torch::Tensor& tensor) {
  constexpr int64_t kAlignment = 16;
  return (static_cast<int64_t>(tensor.nbytes()) + kAlignment - 1) / kAlignment * kAlignment;
}

std::vector<StateTensor> parameters_of(const torch::nn::Module& model) {
  std::vector<StateTensor> tensors;
  for (const auto& item : model.named_parameters())
    tensors.push_back({fmt::format("parameter '{}'", item.key()), item.value()});
  return tensors;
}

std::vector<StateTensor> buffers_of(const torch::nn::Module& model) {
  std::vector<StateTensor> tensors;
  for (const auto& item : model.named_buffers())
    tensors.push_back({fmt::format("buffer '{}'", item.key()), item.value()});
  return tensors;
}

FlatState::FlatState(std::vector<StateTensor> tensors, collective::Communicator& group)
    : group_(group) {
  size_t bytes = 0;
  for (const StateTensor& state : tensors) {
    check_state(state);
    bytes += static_cast<size_t>(aligned_bytes(state.tensor));
  }
  if (bytes == 0) return;
  memory_ = group.allocate(bytes);
  all_ = {memory_.data.get(), static_cast<int64_t>(bytes / kWord), Type::i32};
  std::byte* place = all_.data;
  for (StateTensor& state : tensors) {
    const auto options = torch::TensorOptions(state.tensor.scalar_type());
    const torch::Tensor here =
        torch::from_blob(place, state.tensor.sizes(), [held = memory_](void*) {}, options);
    place += aligned_bytes(state.tensor);
    items_.push_back({std::move(state), here});
  }
}

void FlatState::broadcast(int root, collective::Cargo cargo) {
  if (items_.empty()) return;
  torch::NoGradGuard no_grad;
  for (const auto& [state, place] : items_) {
    const torch::Tensor& tensor = state.tensor;
    if (tensor.scalar_type() != place.scalar_type() || tensor.sizes() != place.sizes())
      throw BadInput("{} was {} and is {} now; wrap the model again afterwards", state.name,
                     describe(place), describe(tensor));
    if (group_.rank() == root && tensor.numel() > 0) copy_bytes(tensor, place);
  }
  group_.broadcast(all_, root, cargo);
  if (group_.rank() == root) return;
  for (const PlacedTensor& item : items_)
    if (item.state.tensor.numel() > 0) copy_bytes(item.place, item.state.tensor);
}

}  // namespace lockstep::parallel
