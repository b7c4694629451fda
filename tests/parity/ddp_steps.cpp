// A user's own training loop on two workers, for comparison with PyTorch's: every rank writes the
// batches it sees and the losses it gets.
//
//   lockstep run -n 2 -- ddp_steps MODEL DATA STEPS BATCH FOLDER
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "data/loader.h"
#include "data/source.h"
#include "lockstep/lockstep.h"
#include "model/model.h"
#include "train/state.h"
#include "train/step.h"

namespace {

using namespace lockstep;

template <typename T>
void append(std::ofstream& file, std::span<T> values) {
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size_bytes()));
}

void run(World world, const std::string& name, const std::string& data, int64_t steps,
         int64_t batch, const std::filesystem::path& folder) {
  const data::Splits splits = data::load({.name = data});
  auto model =
      model::make_model({.name = name, .input = splits.train.shape, .kernels = nn::Kernels::torch});
  if (world.rank() == 0) train::save_weights(folder / "initial.safetensors", *model);
  data::Loader loader(splits.train, {.batch = batch * world.size(),
                                     .normalization = data::measure_normalization(splits.train),
                                     .share = {world.rank(), world.rank() + 1, world.size()}});
  DistributedDataParallel ddp(model, world);
  torch::optim::SGD optimizer(
      model->parameters(),
      torch::optim::SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(5e-4));
  const std::string mine = std::to_string(world.rank());
  std::ofstream xs(folder / ("x." + mine), std::ios::binary);
  std::ofstream ys(folder / ("y." + mine), std::ios::binary);
  nlohmann::json losses;
  for (int64_t step = 0; step < steps; ++step) {
    const data::Batch& now = loader.next();
    append(xs, now.values);
    append(ys, now.labels);
    const auto [x, y] = train::to_tensors(now, splits.train.shape);
    torch::manual_seed(static_cast<uint64_t>(step * world.size() + world.rank()));
    optimizer.zero_grad();
    const torch::Tensor loss = torch::cross_entropy_loss(ddp.forward(x), y);
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  std::ofstream(folder / ("losses." + mine))
      << nlohmann::json{{"losses", losses}, {"shape", splits.train.shape}};
  if (world.rank() == 0) train::save_weights(folder / "final.safetensors", *model);
}

}  // namespace

int main(int argc, char** argv) {
  auto world = lockstep::init(argc, argv);
  at::set_num_threads(1);
  run(world, argv[1], argv[2], std::stoll(argv[3]), std::stoll(argv[4]), argv[5]);
  return 0;
}
