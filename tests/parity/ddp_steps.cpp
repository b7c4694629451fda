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
#include "data/training_data.h"
#include "lockstep/lockstep.h"
#include "model/models.h"
#include "train/batch_tensors.h"
#include "train/state.h"

namespace {

using namespace lockstep;

void append(std::ofstream& file, std::span<const std::byte> bytes) {
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

void train_steps(World world, const std::string& name, const std::string& data_name, int64_t steps,
                 int64_t batch, const std::filesystem::path& folder) {
  const auto data = data::load_training_data({.name = data_name}, batch * world.size(), 1);
  const Fields& fields = data->splits.train->fields();
  const auto classes = static_cast<int64_t>(fields.targets[0].categories.size());
  auto model = model::make_model({.name = name,
                                  .inputs = fields.inputs,
                                  .outputs = {{"scores", Type::f32, {classes}}},
                                  .kernels = nn::Kernels::torch},
                                 1);
  if (world.rank() == 0)
    train::save_weights(folder / "initial.safetensors", train::CollectedState(*model).model());
  data::Loader loader(
      data->splits.train,
      {.batch = batch * world.size(), .share = {world.rank(), world.rank() + 1, world.size()}});
  DistributedDataParallel ddp(model, world);
  torch::optim::SGD optimizer(
      model->parameters(),
      torch::optim::SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(5e-4));
  const std::string mine = std::to_string(world.rank());
  std::ofstream xs(folder / ("x." + mine), std::ios::binary);
  std::ofstream ys(folder / ("y." + mine), std::ios::binary);
  nlohmann::json losses;
  for (int64_t step = 0; step < steps; ++step) {
    const data::LoadedBatch& now = loader.next();
    append(xs, now.fields[0]);
    append(ys, now.fields[1]);
    const Batch mine_now =
        train::to_tensors(now, fields, {now.begin, now.begin + batch}, torch::kCPU);
    torch::manual_seed(static_cast<uint64_t>(step * world.size() + world.rank()));
    optimizer.zero_grad();
    const torch::Tensor loss =
        torch::cross_entropy_loss(ddp.forward(mine_now.inputs).only(), mine_now.targets.only());
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  std::ofstream(folder / ("losses." + mine))
      << nlohmann::json{{"losses", losses}, {"shape", fields.inputs[0].shape}};
  if (world.rank() == 0)
    train::save_weights(folder / "final.safetensors", train::CollectedState(*model).model());
}

}  // namespace

int main(int argc, char** argv) {
  auto world = lockstep::init(argc, argv);
  at::set_num_threads(1);
  train_steps(world, argv[1], argv[2], std::stoll(argv[3]), std::stoll(argv[4]), argv[5]);
  return 0;
}
