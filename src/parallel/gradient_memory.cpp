#include "parallel/gradient_memory.h"

#include <ATen/ATen.h>

#include "collective/fold/fold.h"
#include "parallel/tensor_buffer.h"

namespace lockstep::parallel {
namespace {

at::Tensor placed(const at::Tensor& all, int64_t begin, at::ScalarType type, at::IntArrayRef sizes,
                  at::IntArrayRef strides = {}) {
  const at::Tensor tensor = at::empty({0}, all.options().dtype(type));
  tensor.set_(all.storage(), begin / static_cast<int64_t>(tensor.element_size()), sizes, strides);
  return tensor;
}

}  // namespace

at::Tensor view_in(const at::Tensor& bytes, int64_t begin, const at::Tensor& like,
                   at::ScalarType type) {
  const bool dense = like.is_non_overlapping_and_dense();
  return placed(bytes, begin, type, like.sizes(), dense ? like.strides() : at::IntArrayRef());
}

GradientMemory::GradientMemory(c10::Device device, int64_t bytes_per_slot, int slots,
                               collective::Communicator& group)
    : bytes_per_slot_(bytes_per_slot),
      host_(group.allocate(static_cast<size_t>(bytes_per_slot * slots))),
      charge_(device.is_cpu() ? cpu_account() : nullptr, bytes_per_slot * slots,
              MemoryUse::gradients) {
  const MemoryScope scope(MemoryUse::gradients);
  const auto bytes = at::TensorOptions(at::kByte);
  all_ = device.is_cpu()
             ? at::from_blob(
                   host_.data.get(), {bytes_per_slot * slots}, [held = host_](void*) {}, bytes)
             : at::zeros({bytes_per_slot * slots}, bytes.device(device));
}

at::Tensor GradientMemory::vector(const Part& part, at::ScalarType type) const {
  const auto size = static_cast<int64_t>(c10::elementSize(type));
  return placed(all_, begin_of(part), type, {(part.end - part.begin) / size});
}

void GradientMemory::add(const Part& into, const Part& from, Type type) const {
  if (!on_host()) {
    vector(into, scalar_type(type)).add_(vector(from, scalar_type(type)));
    return;
  }
  collective::combiner(type, Operation::sum)(host_.data.get() + begin_of(into),
                                             host_.data.get() + begin_of(from),
                                             static_cast<size_t>(into.end - into.begin));
}

at::Tensor GradientMemory::bytes_of(const Part& part) const {
  return all_.slice(0, begin_of(part), begin_of(part) + part.end - part.begin);
}

at::Tensor GradientMemory::host_bytes_of(const Part& part) const {
  return at::from_blob(host_.data.get() + begin_of(part), {part.end - part.begin}, at::kByte);
}

std::byte* GradientMemory::to_host(const Part& part) const {
  if (!on_host()) host_bytes_of(part).copy_(bytes_of(part));
  return host_.data.get() + begin_of(part);
}

void GradientMemory::from_host(const Part& part) const {
  if (!on_host()) bytes_of(part).copy_(host_bytes_of(part));
}

}  // namespace lockstep::parallel
