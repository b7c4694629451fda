#include "parallel/shard_statistics.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lockstep/dataset.h"
#include "lockstep/error.h"
#include "parallel/tensor_buffer.h"

namespace lockstep::parallel {
namespace {

torch::Tensor memory_for(const std::vector<StateTensor>& buffers) {
  const torch::Device device = buffers.front().tensor.device();
  int64_t bytes = 0;
  for (const StateTensor& buffer : buffers) {
    if (buffer.tensor.device() != device)
      throw BadInput("{} is on {}, but {} is on {}: a model must be on one device", buffer.name,
                     device_name(buffer.tensor.device()), buffers.front().name,
                     device_name(device));
    bytes += aligned_bytes(buffer.tensor);
  }
  return torch::zeros({bytes}, torch::TensorOptions(torch::kUInt8).device(device));
}

// Host memory as a tensor.
template <typename Value>
torch::Tensor bytes_of(std::span<Value> values) {
  return torch::from_blob(values.data(), {static_cast<int64_t>(values.size_bytes())},
                          torch::kUInt8);
}

// Without those that are registered twice.
std::vector<StateTensor> different_buffers_of(const torch::nn::Module& model) {
  std::set<const void*> seen;
  std::vector<StateTensor> buffers = buffers_of(model);
  std::erase_if(buffers, [&](const StateTensor& buffer) {
    return buffer.tensor.numel() == 0 || !seen.insert(buffer.tensor.unsafeGetTensorImpl()).second;
  });
  return buffers;
}

}  // namespace

template <typename Value>
ShardStatistics::FlatBuffers<Value>::FlatBuffers(std::vector<StateTensor> buffers,
                                                 const collective::Shards& shards,
                                                 collective::Communicator& group)
    : values(memory_for(buffers)),
      before(values.clone()),
      sum(values.numel() / static_cast<int64_t>(sizeof(Value)), shards, group) {
  int64_t begin = 0;
  for (StateTensor& buffer : buffers) {
    const torch::Tensor& tensor = buffer.tensor;
    const auto end = begin + static_cast<int64_t>(tensor.nbytes());
    const torch::Tensor place =
        values.slice(0, begin, end).view(tensor.scalar_type()).view(tensor.sizes());
    begin += aligned_bytes(tensor);
    placed.push_back({std::move(buffer), place});
  }
  collect();
}

template <typename Value>
void ShardStatistics::FlatBuffers<Value>::collect() {
  for (auto& [buffer, place] : placed) {
    torch::Tensor& tensor = buffer.tensor;
    if (tensor.data_ptr() == place.data_ptr()) continue;
    if (tensor.scalar_type() != place.scalar_type() || tensor.sizes() != place.sizes())
      throw BadInput("{} was {} and is {} now: a buffer must keep its type and shape", buffer.name,
                     describe(place), describe(tensor));
    place.copy_(tensor);
    tensor.set_data(place);
  }
}

template <typename Value>
void ShardStatistics::FlatBuffers<Value>::give(int pass) {
  bytes_of(sum.slot(pass)).copy_(values);
  sum.fold(pass);
}

template <typename Value>
void ShardStatistics::FlatBuffers<Value>::give_nothing(int pass) {
  std::ranges::fill(sum.slot(pass), Value{0});
  sum.fold(pass);
}

template <typename Value>
void ShardStatistics::FlatBuffers<Value>::take_sum() {
  pending.wait();
  values.copy_(bytes_of(sum.result()));
}

template <typename Value>
void ShardStatistics::FlatBuffers<Value>::take_mean(int64_t shards) {
  pending.wait();
  const std::span<Value> result = sum.result();
  collective::divider(type_of<Value>())(reinterpret_cast<std::byte*>(result.data()),
                                        result.size_bytes(), shards);
  take_sum();
}

ShardStatistics::ShardStatistics(torch::nn::Module& model, const collective::Shards& shards,
                                 collective::Communicator& group)
    : first_shard_(shards.bounds()[static_cast<size_t>(group.rank())]) {
  torch::NoGradGuard no_grad;
  std::vector<StateTensor> floats, doubles, others;
  for (StateTensor& buffer : different_buffers_of(model)) {
    const auto type = buffer.tensor.scalar_type();
    (type == torch::kFloat32   ? floats
     : type == torch::kFloat64 ? doubles
                               : others)
        .push_back(std::move(buffer));
  }
  const auto make = [&]<typename Value>(Some<Value>& flat, std::vector<StateTensor>& buffers) {
    if (!buffers.empty())
      flat = std::make_unique<FlatBuffers<Value>>(std::move(buffers), shards, group);
  };
  make(floats_, floats);
  make(doubles_, doubles);
  make(others_, others);
}

template <typename Action>
void ShardStatistics::for_each(const Action& action) {
  if (floats_) action(*floats_);
  if (doubles_) action(*doubles_);
  if (others_) action(*others_);
}

void ShardStatistics::begin_pass(int pass) {
  torch::NoGradGuard no_grad;
  for_each([&](auto& buffers) {
    if (pass > 0) {
      buffers.values.copy_(buffers.before);
      return;
    }
    buffers.collect();
    buffers.before.copy_(buffers.values);
  });
}

void ShardStatistics::end_pass(int pass, Shard shard) {
  torch::NoGradGuard no_grad;
  for_each([](auto& buffers) { buffers.collect(); });
  const auto end = [&](auto& buffers, bool counts) {
    if (!buffers) return;
    counts ? buffers->give(pass) : buffers->give_nothing(pass);
  };
  end(floats_, shard == Shard::has_samples);
  end(doubles_, shard == Shard::has_samples);
  end(others_, first_shard_ + pass == 0);
}

void ShardStatistics::start() {
  for_each([](auto& buffers) {
    buffers.pending = buffers.sum.start({collective::Cargo::Kind::buffers});
  });
}

void ShardStatistics::finish(int64_t shards_with_samples) {
  if (floats_) floats_->take_mean(shards_with_samples);
  if (doubles_) doubles_->take_mean(shards_with_samples);
  if (others_) others_->take_sum();
}

void ShardStatistics::roll_back() {
  torch::NoGradGuard no_grad;
  for_each([](auto& buffers) { buffers.values.copy_(buffers.before); });
}

}  // namespace lockstep::parallel
