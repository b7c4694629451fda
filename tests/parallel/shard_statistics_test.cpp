#include "parallel/shard_statistics.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "base/range.h"
#include "parallel/worlds.h"

namespace lockstep::parallel {
namespace {

constexpr int64_t kShards = 7;

torch::Tensor step_values(int64_t samples) {
  return torch::arange(static_cast<float>(samples * 3 * 4)).view({samples, 3, 4}) / 10;
}

// As a training step goes through its shards.
void go_through(const torch::Tensor& x, torch::nn::BatchNorm1d& norm, ShardStatistics& statistics,
                Range shards) {
  for (int64_t shard = shards.begin; shard < shards.end; ++shard) {
    const auto pass = static_cast<int>(shard - shards.begin);
    const Range range = slice(x.size(0), kShards, shard);
    statistics.begin_pass(pass);
    if (!range.empty()) norm(x.slice(0, range.begin, range.end));
    statistics.end_pass(pass, range.empty() ? ShardStatistics::Shard::is_empty
                                            : ShardStatistics::Shard::has_samples);
  }
  statistics.start();
  statistics.finish(std::min(x.size(0), kShards));
}

// Everyone's buffers after steps of so many samples.
std::vector<std::vector<torch::Tensor>> buffers_after(const std::vector<int64_t>& steps,
                                                      int workers) {
  std::vector<std::vector<torch::Tensor>> buffers(static_cast<size_t>(workers));
  as_workers(workers, [&](World everyone) {
    torch::nn::BatchNorm1d norm(3);
    const auto shards = collective::Shards::even(kShards, workers);
    ShardStatistics statistics(*norm, shards, everyone.communicator());
    const auto rank = static_cast<size_t>(everyone.rank());
    for (const int64_t samples : steps)
      go_through(step_values(samples), norm, statistics,
                 {shards.bounds()[rank], shards.bounds()[rank + 1]});
    for (const torch::Tensor& buffer : norm->buffers()) buffers[rank].push_back(buffer.clone());
  });
  return buffers;
}

TEST(ShardStatistics, AreTheSameOnAnyNumberOfWorkersWhereShardsAreEmpty) {
  const std::vector<int64_t> steps = {14, 3, 9, 1};
  const std::vector<torch::Tensor> expected = buffers_after(steps, 1).front();
  EXPECT_EQ(expected.back().item<int64_t>(), 4) << "every step is one batch";
  for (const int workers : {2, 3, 5, 7})
    for (const auto& buffers : buffers_after(steps, workers))
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(torch::equal(buffers[i], expected[i])) << workers << " workers, buffer " << i;
}

TEST(ShardStatistics, AreTheMeanOverShardsThatHaveSamples) {
  torch::nn::BatchNorm1d alone(3);
  alone(step_values(1));
  for (const int workers : {1, 7}) {
    const auto buffers = buffers_after({1}, workers).back();
    for (size_t i = 0; i < buffers.size(); ++i)
      EXPECT_TRUE(torch::equal(buffers[i], alone->buffers()[i])) << "buffer " << i;
  }
}

TEST(ShardStatistics, OfWholeNumbersAloneCountBatchesToo) {
  struct Counting : torch::nn::Module {
    Counting() { count = register_buffer("count", torch::zeros({}, torch::kLong)); }
    torch::Tensor count;
  };
  for (const int workers : {1, 3, 7})
    as_workers(workers, [&](World everyone) {
      Counting model;
      const auto shards = collective::Shards::even(kShards, workers);
      ShardStatistics statistics(model, shards, everyone.communicator());
      const auto rank = static_cast<size_t>(everyone.rank());
      const int64_t first = shards.bounds()[rank];
      const int64_t mine = shards.bounds()[rank + 1] - first;
      for (int pass = 0; pass < mine; ++pass) {
        const bool has_samples = first + pass < 2;
        statistics.begin_pass(pass);
        if (has_samples) model.count += 1;
        statistics.end_pass(pass, has_samples ? ShardStatistics::Shard::has_samples
                                              : ShardStatistics::Shard::is_empty);
      }
      statistics.start();
      statistics.finish(2);
      EXPECT_EQ(model.count.item<int64_t>(), 1);
    });
}

}  // namespace
}  // namespace lockstep::parallel
