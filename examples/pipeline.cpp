// A model whose layers are divided between workers, in your own training loop:
//
//   lockstep run -n 2 -- build/examples/pipeline      # two stages
//   lockstep run -n 3 -- build/examples/pipeline      # three: prints the same lines
//   lockstep run -n 1 -- build/examples/pipeline      # without stages: the same again
//
// Every worker draws the same batches; the first stage takes inputs of them, the last one targets.
#include <lockstep/lockstep.h>
#include <torch/torch.h>

#include <cstdio>

int main(int argc, char** argv) {
  auto world = lockstep::init(argc, argv);
  torch::set_num_threads(1);  // another number adds in another order
  torch::manual_seed(1);
  const torch::Tensor x = torch::randn({1024, 20});
  const torch::Tensor y = x.sum(1, /*keepdim=*/true).sin();
  torch::nn::Sequential model(torch::nn::Linear(20, 64), torch::nn::BatchNorm1d(64),
                              torch::nn::ReLU(), torch::nn::Linear(64, 64), torch::nn::ReLU(),
                              torch::nn::Dropout(0.1), torch::nn::Linear(64, 1));
  lockstep::Pipeline pipeline(model, world, {.micro_batches = 4});
  torch::optim::SGD optimizer(pipeline.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int epoch = 0; epoch < 3; ++epoch) {
    double loss = 0;
    for (int64_t begin = 0; begin < x.size(0); begin += 64) {
      loss += pipeline.step(
          x.narrow(0, begin, 64), y.narrow(0, begin, 64),
          [](const auto& output, const auto& target) { return torch::mse_loss(output, target); });
      optimizer.step();
    }
    if (world.rank() == 0) std::printf("epoch %d: sum of losses %a\n", epoch, loss);
  }
  const auto error = (pipeline.forward(x) - y).pow(2).mean();  // on all workers
  double sum = 0;
  for (const auto& [name, tensor] : pipeline.state()) sum += tensor.sum().item<double>();
  if (world.rank() == 0)
    std::printf("mean squared error %.3f, sum of the model: %a\n", error.item<double>(), sum);
  return 0;
}
