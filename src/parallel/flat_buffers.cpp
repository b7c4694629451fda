#include "parallel/flat_buffers.h"

#include <map>

#include "parallel/tensor_buffer.h"

namespace lockstep::parallel {

FlatBuffers::FlatBuffers(torch::nn::Module& model, collective::Communicator& group)
    : group_(group) {
  torch::NoGradGuard no_grad;
  std::map<Type, std::vector<torch::Tensor>> by_type;
  for (const auto& item : model.named_buffers())
    by_type[element_type(item.value().scalar_type())].push_back(item.value());
  for (auto& [type, tensors] : by_type) {
    int64_t count = 0;
    for (const torch::Tensor& tensor : tensors) count += tensor.numel();
    Piece piece;
    piece.memory = group.allocate(static_cast<size_t>(count) * bytes_of(type));
    piece.all = {piece.memory.data.get(), count, type};
    std::byte* place = piece.all.data;
    for (torch::Tensor& tensor : tensors) {
      torch::Tensor view = torch::from_blob(
          place, tensor.sizes(), [held = piece.memory](void*) {}, tensor.options());
      view.copy_(tensor);
      tensor.set_data(view);
      place += static_cast<size_t>(tensor.numel()) * bytes_of(type);
    }
    pieces_.push_back(std::move(piece));
  }
}

void FlatBuffers::broadcast(int root) {
  for (const Piece& piece : pieces_)
    group_.broadcast(piece.all, root, {collective::Cargo::Kind::buffers});
}

}  // namespace lockstep::parallel
