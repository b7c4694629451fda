#include "train/shard_statistics.h"

#include <cstring>

#include "lockstep/error.h"

namespace lockstep::train {

ShardStatistics::ShardStatistics(torch::nn::Module& model, const collective::Shards& shards,
                                 collective::Communicator& group) {
  torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> buffers;
  for (const auto& item : model.named_buffers()) {
    if (item.value().scalar_type() == torch::kFloat32) {
      buffers.push_back(item.value());
      count_ += item.value().numel();
    } else if (item.value().scalar_type() == torch::kInt64) {
      whole_numbers_.push_back(item.value());
      whole_before_.push_back(item.value().clone());
    } else {
      throw BadInput("buffer '{}' is neither float32 nor int64", item.key());
    }
  }
  if (count_ == 0) return;
  floats_ = torch::empty({count_});
  before_ = torch::empty({count_});
  int64_t begin = 0;
  for (torch::Tensor& buffer : buffers) {
    torch::Tensor view = floats_.slice(0, begin, begin + buffer.numel()).view(buffer.sizes());
    begin += buffer.numel();
    view.copy_(buffer);
    buffer.set_data(view);
  }
  sum_ = std::make_unique<parallel::ShardedVector<float>>(count_, shards, group);
}

void ShardStatistics::begin_pass(int pass) {
  if (count_ == 0) return;
  torch::NoGradGuard no_grad;
  if (pass == 0) {
    before_.copy_(floats_);
    for (size_t i = 0; i < whole_numbers_.size(); ++i) whole_before_[i].copy_(whole_numbers_[i]);
    return;
  }
  floats_.copy_(before_);
  for (size_t i = 0; i < whole_numbers_.size(); ++i) whole_numbers_[i].copy_(whole_before_[i]);
}

void ShardStatistics::end_pass(int pass) {
  if (count_ == 0) return;
  std::memcpy(sum_->slot(pass).data(), floats_.data_ptr<float>(), sum_->slot(pass).size_bytes());
  sum_->fold(pass);
}

void ShardStatistics::start() {
  if (count_ > 0) pending_ = sum_->start(Operation::mean, {collective::Cargo::Kind::buffers});
}

void ShardStatistics::finish() {
  if (count_ == 0) return;
  pending_.wait();
  std::memcpy(floats_.data_ptr<float>(), sum_->result().data(), sum_->result().size_bytes());
}

}  // namespace lockstep::train
