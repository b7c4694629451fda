// Your own training loop on many workers: three lines, marked below, make it distributed.
//
//   cmake -S examples -B build/examples -DCMAKE_PREFIX_PATH=$HOME/lockstep
//   cmake --build build/examples
//   lockstep run -n 2 -- build/examples/mnist_ddp ~/.local/share/lockstep/mnist
//
// With MNIST from `lockstep data get mnist`, the test accuracy after two epochs is about 98.5 %.
#include <lockstep/lockstep.h>
#include <torch/torch.h>

#include <cstdio>
#include <filesystem>

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("fc", fc);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    return torch::log_softmax(fc(x.flatten(1)), 1);
  }
  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 16, 3)};
  torch::nn::Conv2d conv2{torch::nn::Conv2dOptions(16, 32, 3)};
  torch::nn::Linear fc{800, 10};
};
TORCH_MODULE(Net);

int main(int argc, char** argv) {
  auto world = lockstep::init(argc, argv);  // 1: rank and world size; connects all workers
  if (argc != 2) {
    std::fprintf(stderr, "usage: mnist_ddp FOLDER_WITH_MNIST\n");
    return 2;
  }
  // LibTorch's own error would be a stack trace; an uncaught lockstep::Error is printed as one
  // line.
  if (!std::filesystem::exists(std::filesystem::path(argv[1]) / "train-images-idx3-ubyte"))
    throw lockstep::BadInput("{}: contains no MNIST; get it with: lockstep data get mnist",
                             argv[1]);
  using torch::data::datasets::MNIST;
  const auto load = [&](MNIST::Mode mode) {
    return MNIST(argv[1], mode)
        .map(torch::data::transforms::Normalize<>(0.1307, 0.3081))
        .map(torch::data::transforms::Stack<>());
  };
  torch::manual_seed(1);
  Net model;
  lockstep::DistributedDataParallel ddp(model, world);  // 2: the same model on all workers
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));

  auto train = load(MNIST::Mode::kTrain);
  lockstep::DistributedSampler sampler(*train.size(), world);  // 3: each worker's part of the data
  auto loader = torch::data::make_data_loader(std::move(train), sampler, 64);
  for (int epoch = 0; epoch < 2; ++epoch) {
    sampler.set_epoch(epoch);
    int step = 0;
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      torch::Tensor loss = torch::nll_loss(ddp.forward(batch.data), batch.target);
      loss.backward();
      optimizer.step();
      if (step++ % 100 == 0 && world.rank() == 0)
        std::printf("epoch %d, step %d: loss %.3f\n", epoch + 1, step, loss.item<double>());
    }
  }

  model->eval();
  torch::NoGradGuard no_grad;
  auto test = load(MNIST::Mode::kTest);
  lockstep::DistributedSampler each_once(*test.size(), world,
                                         {.shuffle = false, .uneven = lockstep::Uneven::keep});
  auto test_loader = torch::data::make_data_loader(std::move(test), each_once, 256);
  torch::Tensor counts = torch::zeros({2}, torch::kLong);  // right, all
  for (auto& batch : *test_loader) {
    counts[0] += model->forward(batch.data).argmax(1).eq(batch.target).sum();
    counts[1] += batch.target.size(0);
  }
  world.all_reduce(counts);
  if (world.rank() == 0)
    std::printf("test accuracy %.2f %% of %ld samples on %d workers\n",
                100 * counts[0].item<double>() / counts[1].item<double>(), counts[1].item<long>(),
                world.size());
  return 0;
}
