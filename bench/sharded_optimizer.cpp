// What a step of ShardedOptimizer costs beside that of the optimizer itself, on every worker:
//
//   lockstep run -n 2 -- build/release/sharded_optimizer [MILLIONS] [ROUNDS]
//
// AdamW over MILLIONS (default 12) of parameters in tensors of a million. Both take turns; printed
// are the best milliseconds of each, of the share's update without the exchange, and the state that
// this worker keeps.
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "base/clock.h"
#include "lockstep/lockstep.h"

namespace {

std::vector<torch::Tensor> parameters_of(int64_t millions) {
  std::vector<torch::Tensor> parameters;
  for (int64_t i = 0; i < millions; ++i) {
    parameters.push_back(torch::ones({1000, 1000}).requires_grad_());
    parameters.back().mutable_grad() = torch::ones({1000, 1000});
  }
  return parameters;
}

int64_t bytes_of(const torch::optim::AdamW& optimizer) {
  int64_t bytes = 0;
  for (const auto& item : optimizer.state()) {
    const auto& state = static_cast<const torch::optim::AdamWParamState&>(*item.second);
    bytes += static_cast<int64_t>(state.exp_avg().nbytes() + state.exp_avg_sq().nbytes());
  }
  return bytes;
}

void time_best(double& best, const auto& action) {
  const lockstep::Stopwatch watch;
  action();
  best = std::min(best, 1000 * watch.seconds());
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::World world = lockstep::init(argc, argv);
  const int64_t millions = argc > 1 ? std::atoll(argv[1]) : 12;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 20;
  torch::set_num_threads(1);
  const auto parameters = parameters_of(millions);
  const auto options = torch::optim::AdamWOptions(1e-3);
  torch::optim::AdamW itself(parameters, options);
  lockstep::ShardedOptimizer<torch::optim::AdamW> sharded(parameters, options, world);
  // As large as a share, without an exchange.
  const auto share = parameters_of(std::max<int64_t>(1, millions / world.size()));
  torch::optim::AdamW update(share, options);

  double of_itself = std::numeric_limits<double>::max(), of_sharded = of_itself,
         of_update = of_itself;
  for (int round = 0; round < rounds; ++round) {
    world.barrier();
    time_best(of_itself, [&] { itself.step(); });
    world.barrier();
    time_best(of_sharded, [&] { sharded.step(); });
    world.barrier();
    time_best(of_update, [&] { update.step(); });
  }
  std::printf("rank %d: itself %.1f ms, sharded %.1f ms (update %.1f ms), state %.1f of %.1f MB\n",
              world.rank(), of_itself, of_sharded, of_update,
              static_cast<double>(bytes_of(sharded.share())) * 1e-6,
              static_cast<double>(bytes_of(itself)) * 1e-6);
}
