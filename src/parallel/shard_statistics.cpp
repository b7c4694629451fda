#include "train/shard_statistics.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/range.h"
#include "lockstep/error.h"

namespace lockstep::train {
namespace {

torch::Tensor move_together(std::vector<torch::Tensor>& tensors) {
  int64_t count = 0;
  for (const torch::Tensor& tensor : tensors) count += tensor.numel();
  torch::Tensor all = torch::empty({count}, tensors.front().options());
  int64_t begin = 0;
  for (torch::Tensor& tensor : tensors) {
    torch::Tensor view = all.slice(0, begin, begin + tensor.numel()).view(tensor.sizes());
    begin += tensor.numel();
    view.copy_(tensor);
    tensor.set_data(view);
  }
  return all;
}

}  // namespace

template <typename Value>
ShardStatistics::Buffers<Value>::Buffers(std::vector<torch::Tensor> tensors,
                                         const collective::Shards& shards,
                                         collective::Communicator& group)
    : values(move_together(tensors)), before(values.clone()), sum(values.numel(), shards, group) {}

template <typename Value>
void ShardStatistics::Buffers<Value>::give(int pass) {
  std::memcpy(sum.slot(pass).data(), values.data_ptr(), sum.slot(pass).size_bytes());
  sum.fold(pass);
}

template <typename Value>
void ShardStatistics::Buffers<Value>::give_nothing(int pass) {
  std::ranges::fill(sum.slot(pass), Value{0});
  sum.fold(pass);
}

template <typename Value>
void ShardStatistics::Buffers<Value>::take_sum() {
  pending.wait();
  std::memcpy(values.data_ptr(), sum.result().data(), sum.result().size_bytes());
}

ShardStatistics::ShardStatistics(torch::nn::Module& model, const collective::Shards& shards,
                                 collective::Communicator& group)
    : shards_(shards), first_shard_(shards.bounds()[static_cast<size_t>(group.rank())]) {
  torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> floats, whole_numbers;
  for (const auto& item : model.named_buffers()) {
    const auto type = item.value().scalar_type();
    if (type != torch::kFloat32 && type != torch::kInt64)
      throw BadInput("buffer '{}' is neither float32 nor int64", item.key());
    if (item.value().numel() > 0)
      (type == torch::kFloat32 ? floats : whole_numbers).push_back(item.value());
  }
  if (!floats.empty()) floats_ = std::make_unique<Buffers<float>>(std::move(floats), shards, group);
  if (!whole_numbers.empty())
    whole_numbers_ = std::make_unique<Buffers<int64_t>>(std::move(whole_numbers), shards, group);
}

void ShardStatistics::begin_pass(int pass, int64_t samples) {
  torch::NoGradGuard no_grad;
  samples_ = samples;
  const auto begin = [&](auto& buffers) {
    if (!buffers) return;
    if (pass == 0)
      buffers->before.copy_(buffers->values);
    else
      buffers->values.copy_(buffers->before);
  };
  begin(floats_);
  begin(whole_numbers_);
}

void ShardStatistics::end_pass(int pass) {
  const int64_t shard = first_shard_ + pass;
  const auto end = [&](auto& buffers, bool counts) {
    if (!buffers) return;
    counts ? buffers->give(pass) : buffers->give_nothing(pass);
  };
  end(floats_, !slice(samples_, shards_.count(), shard).empty());
  end(whole_numbers_, shard == 0);
}

void ShardStatistics::start() {
  const auto start = [](auto& buffers) {
    if (buffers)
      buffers->pending = buffers->sum.start(Operation::sum, {collective::Cargo::Kind::buffers});
  };
  start(floats_);
  start(whole_numbers_);
}

void ShardStatistics::finish() {
  if (floats_) {
    floats_->take_sum();
    const int64_t shards_with_samples = std::min(samples_, shards_.count());
    collective::divider(Type::f32)(reinterpret_cast<std::byte*>(floats_->values.data_ptr()),
                                   floats_->sum.result().size_bytes(), shards_with_samples);
  }
  if (whole_numbers_) whole_numbers_->take_sum();
}

void ShardStatistics::take_back() {
  torch::NoGradGuard no_grad;
  if (floats_) floats_->values.copy_(floats_->before);
  if (whole_numbers_) whole_numbers_->values.copy_(whole_numbers_->before);
}

}  // namespace lockstep::train
