#include "parallel/shard_statistics.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/dataset.h"

namespace lockstep::parallel {
namespace {

// Every buffer begins where its type may, and all together are whole `int64_t`s.
int64_t padded_bytes(const torch::Tensor& tensor) {
  constexpr int64_t kAlignment = 16;
  return (static_cast<int64_t>(tensor.nbytes()) + kAlignment - 1) / kAlignment * kAlignment;
}

torch::Tensor move_together(std::vector<torch::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) bytes += padded_bytes(tensor);
  torch::Tensor all = torch::zeros({bytes}, torch::kUInt8);
  int64_t begin = 0;
  for (torch::Tensor& tensor : tensors) {
    const auto end = begin + static_cast<int64_t>(tensor.nbytes());
    torch::Tensor view = all.slice(0, begin, end).view(tensor.scalar_type()).view(tensor.sizes());
    begin += padded_bytes(tensor);
    view.copy_(tensor);
    tensor.set_data(view);
  }
  return all;
}

}  // namespace

template <typename Value>
ShardStatistics::FlatBuffers<Value>::FlatBuffers(std::vector<torch::Tensor> tensors,
                                                 const collective::Shards& shards,
                                                 collective::Communicator& group)
    : values(move_together(tensors)),
      before(values.clone()),
      sum(values.numel() / static_cast<int64_t>(sizeof(Value)), shards, group) {}

template <typename Value>
void ShardStatistics::FlatBuffers<Value>::give(int pass) {
  std::memcpy(sum.slot(pass).data(), values.data_ptr(), sum.slot(pass).size_bytes());
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
  std::memcpy(values.data_ptr(), sum.result().data(), sum.result().size_bytes());
}

template <typename Value>
void ShardStatistics::FlatBuffers<Value>::take_mean(int64_t shards) {
  take_sum();
  collective::divider(type_of<Value>())(static_cast<std::byte*>(values.data_ptr()), values.nbytes(),
                                        shards);
}

ShardStatistics::ShardStatistics(torch::nn::Module& model, const collective::Shards& shards,
                                 collective::Communicator& group)
    : first_shard_(shards.bounds()[static_cast<size_t>(group.rank())]) {
  torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> floats, doubles, others;
  for (const torch::Tensor& buffer : model.buffers()) {
    if (buffer.numel() == 0) continue;
    const auto type = buffer.scalar_type();
    (type == torch::kFloat32   ? floats
     : type == torch::kFloat64 ? doubles
                               : others)
        .push_back(buffer);
  }
  const auto make = [&]<typename Value>(Some<Value>& buffers, std::vector<torch::Tensor>& tensors) {
    if (!tensors.empty())
      buffers = std::make_unique<FlatBuffers<Value>>(std::move(tensors), shards, group);
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
    if (pass == 0)
      buffers.before.copy_(buffers.values);
    else
      buffers.values.copy_(buffers.before);
  });
}

void ShardStatistics::end_pass(int pass, Shard shard) {
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
