// Your own training loop whose model has the same bits on any number of workers up to 8:
//
//   lockstep run -n 1 -- build/examples/same_bits
//   lockstep run -n 3 -- build/examples/same_bits      # prints the same line
//
// Besides the three lines of mnist_ddp.cpp it needs DdpOptions::shards, a sampler with the same
// number of shards, an optimizer step only when a step is complete, and nothing that depends on the
// rank.
#include <lockstep/lockstep.h>
#include <torch/torch.h>

#include <cstdio>

namespace {

constexpr int64_t kShards = 8, kSamples = 1024, kShardBatch = 16;

// Sample i is the same on every worker.
torch::Tensor inputs(const std::vector<size_t>& samples) {
  std::vector<torch::Tensor> rows;
  for (const size_t i : samples)
    rows.push_back((torch::arange(20) * (0.1 + 0.01 * static_cast<double>(i))).sin());
  return torch::stack(rows).to(torch::kFloat);
}

}  // namespace

int main(int argc, char** argv) {
  auto world = lockstep::init(argc, argv);
  torch::set_num_threads(1);  // another number adds in another order
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(20, 64), torch::nn::BatchNorm1d(64),
                              torch::nn::ReLU(), torch::nn::Dropout(0.2), torch::nn::Linear(64, 1));
  lockstep::DistributedDataParallel ddp(model, world, {.shards = kShards, .seed = 1});
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  lockstep::DistributedSampler sampler(kSamples, world, {.shards = kShards});
  for (int epoch = 0; epoch < 3; ++epoch) {
    sampler.set_epoch(epoch);
    while (const auto samples = sampler.next(kShardBatch)) {  // of this worker's next shard
      const torch::Tensor x = inputs(*samples);
      torch::mse_loss(ddp.forward(x), x.sum(1, true)).backward();
      if (!ddp.step_complete()) continue;  // this worker has more shards of the step
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  double sum = 0;
  for (const torch::Tensor& tensor : model->parameters()) sum += tensor.sum().item<double>();
  for (const torch::Tensor& tensor : model->buffers()) sum += tensor.sum().item<double>();
  if (world.rank() == 0) std::printf("sum of the model: %a\n", sum);
  return 0;
}
