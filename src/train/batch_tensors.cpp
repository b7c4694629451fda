#include "train/batch_tensors.h"

#include <c10/core/StreamGuard.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <numeric>
#include <utility>

#include "base/units.h"
#include "device/memory_account.h"
#include "lockstep/error.h"
#include "parallel/device_streams.h"
#include "parallel/named_tensors.h"
#include "parallel/tensor_buffer.h"

namespace lockstep {

const torch::Tensor& Tensors::operator[](std::string_view name) const {
  std::vector<std::string> names;
  for (const auto& [known, tensor] : items_) {
    if (known == name) return tensor;
    names.push_back(known);
  }
  throw BadInput("no tensor '{}'; there are: {}", name, fmt::join(names, ", "));
}

const torch::Tensor& Tensors::only() const {
  if (items_.size() != 1)
    throw BadInput("there are {} tensors, but only() needs exactly one; get one by its name",
                   items_.size());
  return items_.front().second;
}

namespace train {
namespace {

torch::Tensor samples_of(const Field& field, std::span<std::byte> memory, int64_t samples,
                         Range range) {
  std::vector<int64_t> sizes = field.shape;
  sizes.insert(sizes.begin(), range.size());
  const auto bytes_a_sample = static_cast<int64_t>(memory.size()) / samples;
  return torch::from_blob(memory.data() + range.begin * bytes_a_sample, sizes,
                          parallel::scalar_type(field.type));
}

// `tensor_of` gives the samples in a range of the worker's share, of a field.
template <typename TensorOf>
Batch batch_of(const data::LoadedBatch& batch, const Fields& fields, Range range,
               const TensorOf& tensor_of) {
  const Range here = {range.begin - batch.begin, range.end - batch.begin};
  std::vector<Tensors::Item> inputs, targets;
  for (size_t i = 0; i < fields.count(); ++i)
    (i < fields.inputs.size() ? inputs : targets).emplace_back(fields[i].name, tensor_of(i, here));
  const auto items =
      batch.items.subspan(static_cast<size_t>(here.begin), static_cast<size_t>(here.size()));
  return {.inputs = Tensors(std::move(inputs)),
          .targets = Tensors(std::move(targets)),
          .samples = range.size(),
          .items = std::accumulate(items.begin(), items.end(), int64_t{0})};
}

int64_t samples_in(const data::LoadedBatch& batch) {
  return static_cast<int64_t>(batch.samples.size());
}

}  // namespace

Batch to_tensors(const data::LoadedBatch& batch, const Fields& fields, Range range,
                 c10::Device device) {
  return batch_of(batch, fields, range, [&](size_t field, Range here) {
    return samples_of(fields[field], batch.fields[field], samples_in(batch), here).to(device);
  });
}

Batch moved(Batch batch, c10::Device device) {
  batch.inputs = moved(batch.inputs, device);
  batch.targets = moved(batch.targets, device);
  return batch;
}

DeviceBatches::DeviceBatches(c10::Device device, Fields fields)
    : device_(device), fields_(std::move(fields)) {
  if (!device_.is_cpu()) copies_ = parallel::another_stream(device_);
}

data::Deliver DeviceBatches::deliver() {
  if (device_.is_cpu()) return {};
  return [this](const data::LoadedBatch& batch) { copy(batch); };
}

Batch DeviceBatches::part(const data::LoadedBatch& batch, Range range) const {
  if (device_.is_cpu()) return to_tensors(batch, fields_, range, device_);
  return batch_of(batch, fields_, range, [&](size_t field, Range here) {
    return parallel::with_own_version(
        places_[static_cast<size_t>(batch.place)][field].narrow(0, here.begin, here.size()));
  });
}

void DeviceBatches::copy(const data::LoadedBatch& batch) {
  const int64_t samples = samples_in(batch);
  make_room(samples);
  const c10::StreamGuard on_copies(*copies_);
  for (size_t i = 0; i < fields_.count(); ++i)
    places_[static_cast<size_t>(batch.place)][i]
        .narrow(0, 0, samples)
        .copy_(samples_of(fields_[i], batch.fields[i], samples, {0, samples}));
  parallel::synchronize(*copies_);
}

// For both places, so that what is in use in a step does not depend on how fast the loader is. Only
// the first batches after a seek to an epoch's end may be smaller than later ones.
void DeviceBatches::make_room(int64_t samples) {
  const MemoryScope scope(MemoryUse::other);
  try {
    for (std::vector<at::Tensor>& place : places_) {
      if (!place.empty() && place.front().size(0) >= samples) continue;
      std::vector<at::Tensor> made;
      for (size_t i = 0; i < fields_.count(); ++i) {
        std::vector<int64_t> sizes = fields_[i].shape;
        sizes.insert(sizes.begin(), samples);
        made.push_back(torch::empty(
            sizes, torch::TensorOptions(device_).dtype(parallel::scalar_type(fields_[i].type))));
      }
      place = std::move(made);
    }
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(
        error.device(), error.asked(), error.in_use(), error.limit(),
        fmt::format("{}; this was for two batches of {}, the one that is computed and "
                    "the next one: use a smaller train.batch, or more workers",
                    error.what(), plural(samples, "sample")));
  }
}

}  // namespace train
}  // namespace lockstep
