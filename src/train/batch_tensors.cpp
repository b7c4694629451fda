#include "train/batch_tensors.h"

#include <fmt/ranges.h>
#include <torch/types.h>

#include <numeric>
#include <utility>

#include "lockstep/error.h"
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

}  // namespace

Batch to_tensors(const data::LoadedBatch& batch, const Fields& fields, Range range,
                 c10::Device device) {
  const Range here = {range.begin - batch.begin, range.end - batch.begin};
  const auto count = static_cast<int64_t>(batch.samples.size());
  std::vector<Tensors::Item> inputs, targets;
  for (size_t i = 0; i < fields.count(); ++i)
    (i < fields.inputs.size() ? inputs : targets)
        .emplace_back(fields[i].name,
                      samples_of(fields[i], batch.fields[i], count, here).to(device));
  const auto items =
      batch.items.subspan(static_cast<size_t>(here.begin), static_cast<size_t>(here.size()));
  return {.inputs = Tensors(std::move(inputs)),
          .targets = Tensors(std::move(targets)),
          .samples = range.size(),
          .items = std::accumulate(items.begin(), items.end(), int64_t{0})};
}

}  // namespace train
}  // namespace lockstep
