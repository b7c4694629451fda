#include "parallel/exchange_memory.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>

#include <chrono>
#include <thread>
#include <utility>

#include "collective/fold/fold.h"
#include "parallel/device_streams.h"
#include "parallel/tensor_buffer.h"

namespace lockstep::parallel {
namespace {

constexpr std::chrono::microseconds kBetweenQueries(20);

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

ExchangeMemory::ExchangeMemory(c10::Device device, MemoryUse use, int64_t bytes_per_slot, int slots,
                               collective::Communicator& group)
    : bytes_per_slot_(bytes_per_slot),
      group_(group),
      is_carried_(is_carried(device, group)),
      host_(group.allocate(static_cast<size_t>(bytes_per_slot * slots))),
      charge_(device.is_cpu() ? cpu_account() : nullptr, bytes_per_slot * slots, use) {
  const MemoryScope scope(use);
  const auto bytes = at::TensorOptions(at::kByte);
  const auto pinned = device.is_cpu() ? nullptr : pin_memory(host_.data.get(), device);
  on_host_ = at::from_blob(
      host_.data.get(), {bytes_per_slot * slots}, [held = host_, pinned](void*) {}, bytes);
  all_ = device.is_cpu() ? on_host_ : at::zeros({bytes_per_slot * slots}, bytes.device(device));
  owner_ = std::make_shared<const std::pair<transport::Memory, at::Tensor>>(host_, all_);
  if (!device.is_cpu()) copies_ = another_stream(device);
}

at::Tensor ExchangeMemory::vector(const Part& part, at::ScalarType type) const {
  const auto size = static_cast<int64_t>(c10::elementSize(type));
  return placed(all_, begin_of(part), type, {(part.end - part.begin) / size});
}

void ExchangeMemory::add(const Part& into, const Part& from, Type type) const {
  if (!on_host()) {
    vector(into, scalar_type(type)).add_(vector(from, scalar_type(type)));
    return;
  }
  collective::combiner(type, Operation::sum)(host_.data.get() + begin_of(into),
                                             host_.data.get() + begin_of(from),
                                             static_cast<size_t>(into.end - into.begin));
}

at::Tensor ExchangeMemory::bytes_of(const at::Tensor& all, int64_t begin, const Part& part) {
  return all.slice(0, begin, begin + part.end - part.begin);
}

ExchangeMemory::Staged ExchangeMemory::stage(const std::vector<Part>& parts) const {
  Staged staged;
  std::byte* const base = is_carried_ ? static_cast<std::byte*>(all_.data_ptr()) : host_.data.get();
  for (const Part& part : parts) staged.data.push_back(base + begin_of(part));
  if (is_carried_) staged.place = transport::Place::device;
  if (on_host() || is_carried_) return staged;
  record_event(current_stream(all_.device()))->block(*copies_);
  {
    const c10::StreamGuard on_copies(*copies_);
    for (const Part& part : parts)
      bytes_of(on_host_, begin_of(part), part)
          .copy_(bytes_of(all_, begin_of(part), part), /*non_blocking=*/true);
  }
  staged.wait = [&group = group_, copied = record_event(*copies_)] {
    while (!copied->query()) {
      group.check();
      std::this_thread::sleep_for(kBetweenQueries);
    }
  };
  return staged;
}

void ExchangeMemory::take_back(const Part& part) const {
  if (!on_host() && !is_carried_)
    bytes_of(all_, begin_of(part), part)
        .copy_(bytes_of(on_host_, begin_of(part), part), /*non_blocking=*/true);
}

}  // namespace lockstep::parallel
