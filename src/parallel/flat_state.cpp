#include "parallel/flat_buffers.h"

#include <ATen/MemoryOverlap.h>

#include <cstring>

#include "lockstep/error.h"
#include "parallel/tensor_buffer.h"

namespace lockstep::parallel {
namespace {

constexpr size_t kWord = sizeof(int32_t);

// Every buffer begins where its type may.
size_t room_for(const torch::Tensor& buffer) {
  constexpr size_t kAlignment = 16;
  return (buffer.nbytes() + kAlignment - 1) / kAlignment * kAlignment;
}

void check_buffer(const std::string& name, const torch::Tensor& buffer) {
  if (!buffer.device().is_cpu())
    throw BadInput("buffer '{}' is on {}: expected one on the CPU", name, buffer.device().str());
  if (at::has_internal_overlap(buffer) == at::MemOverlap::Yes)
    throw BadInput(
        "buffer '{}' is expanded, so that its elements share memory; register a .clone()", name);
}

// Behind autograd's back: a forward pass may go on using what another one has saved.
void copy_bytes(const torch::Tensor& from, const torch::Tensor& to) {
  if (from.is_contiguous() && to.is_contiguous())
    std::memcpy(to.data_ptr(), from.data_ptr(), to.nbytes());
  else
    to.variable_data().copy_(from);
}

}  // namespace

FlatBuffers::FlatBuffers(const torch::nn::Module& model, collective::Communicator& group)
    : group_(group) {
  size_t bytes = 0;
  const auto buffers = model.named_buffers();
  for (const auto& item : buffers) {
    check_buffer(item.key(), item.value());
    bytes += room_for(item.value());
  }
  if (bytes == 0) return;
  memory_ = group.allocate(bytes);
  all_ = {memory_.data.get(), static_cast<int64_t>(bytes / kWord), Type::i32};
  std::byte* place = all_.data;
  for (const auto& item : buffers) {
    const auto options = item.value().options().requires_grad(false);
    items_.push_back({item.key(), item.value(),
                      torch::from_blob(
                          place, item.value().sizes(), [held = memory_](void*) {}, options)});
    place += room_for(item.value());
  }
}

void FlatBuffers::broadcast(int root) {
  if (items_.empty()) return;
  for (const auto& [name, buffer, place] : items_) {
    if (buffer.scalar_type() != place.scalar_type() || buffer.sizes() != place.sizes())
      throw BadInput("buffer '{}' was {} and is {} now; make a new DistributedDataParallel", name,
                     describe(place), describe(buffer));
    if (group_.rank() == root && buffer.numel() > 0) copy_bytes(buffer, place);
  }
  group_.broadcast(all_, root, {collective::Cargo::Kind::buffers});
  if (group_.rank() == root) return;
  for (const Item& item : items_)
    if (item.buffer.numel() > 0) copy_bytes(item.place, item.buffer);
}

}  // namespace lockstep::parallel
