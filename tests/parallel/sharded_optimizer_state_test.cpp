// What a ShardedOptimizer keeps, saves, loads and refuses.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "expect_error.h"
#include "lockstep/ddp.h"
#include "lockstep/sharded_optimizer.h"
#include "parallel/own_optimizer.h"
#include "parallel/some_parameters.h"
#include "parallel/worlds.h"
#include "temporary_folder.h"

namespace lockstep::optimized {
namespace {

using torch::optim::AdamW;
using torch::optim::AdamWOptions;
using torch::optim::OptimizerParamGroup;
using torch::optim::SGD;

int64_t bytes_of_state(const AdamW& optimizer) {
  int64_t bytes = 0;
  for (const auto& item : optimizer.state()) {
    const auto& state = static_cast<const torch::optim::AdamWParamState&>(*item.second);
    // Of storages: a view of longer memory would keep all of it.
    bytes += static_cast<int64_t>(state.exp_avg().storage().nbytes() +
                                  state.exp_avg_sq().storage().nbytes());
  }
  return bytes;
}

template <typename Optimizer>
void step_with_ones(Optimizer& optimizer, const Tensors& parameters) {
  for (Tensor parameter : parameters) parameter.mutable_grad() = torch::ones_like(parameter);
  optimizer.step();
}

TEST(ShardedOptimizerState, IsDividedByTheNumberOfWorkers) {
  const auto make = [] {
    return Tensors{torch::ones({100000}), torch::ones({3}), torch::ones({17, 901}),
                   torch::ones({5000}, torch::kDouble)};
  };
  const Tensors all = make();
  AdamW whole(all, AdamWOptions(0.01));
  step_with_ones(whole, all);
  const TemporaryFolder folder;
  for (const int workers : {2, 3, 4})
    as_workers(workers, [&](World world) {
      const Tensors parameters = make();
      ShardedOptimizer<AdamW> optimizer(parameters, AdamWOptions(0.01), world);
      const auto expect_a_part = [&](const char* when) {
        EXPECT_NEAR(static_cast<double>(bytes_of_state(optimizer.share())) * workers /
                        static_cast<double>(bytes_of_state(whole)),
                    1, 0.02)
            << when << ", rank " << world.rank() << " of " << workers;
      };
      step_with_ones(optimizer, parameters);
      expect_a_part("after a step");
      optimizer.save_to(folder / "part.pt");
      torch::load(optimizer, (folder / "part.pt").string());
      expect_a_part("after loading");
    });
}

// What is not trained has no state: it must not count.
TEST(ShardedOptimizerState, IsDividedEvenlyIfOnlySomeParametersAreTrained) {
  as_workers(2, [](World world) {
    Tensor trained = torch::ones({10000}).requires_grad_();
    ShardedOptimizer<AdamW> optimizer(Tensors{torch::ones({90000}), trained}, AdamWOptions(0.01),
                                      world);
    trained.mutable_grad() = torch::ones({10000});
    optimizer.step();
    EXPECT_NEAR(static_cast<double>(bytes_of_state(optimizer.share())), 40000, 800);
  });
}

// `before` workers train and save, `after` workers load and go on.
template <typename Inner, typename Options>
void expect_to_go_on(const Options& options, int before, int after) {
  const Tensors expected = some_parameters();
  Inner itself(expected, options);
  train(itself, expected, 0, 5);

  const TemporaryFolder folder;
  const std::string file = folder / "optimizer.pt";
  Tensors weights;
  as_workers(before, [&](World world) {
    const Tensors parameters = some_parameters();
    ShardedOptimizer<Inner> optimizer(parameters, options, world);
    train(optimizer, parameters, 0, 3);
    optimizer.save_to(file);
    if (world.rank() == 0) weights = copies(parameters);
  });
  const auto restored = [&] {
    const torch::NoGradGuard no_grad;
    Tensors parameters = some_parameters();
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(weights[i]);
    return parameters;
  };
  as_workers(after, [&](World world) {
    const Tensors parameters = restored();
    ShardedOptimizer<Inner> optimizer(parameters, options, world);
    torch::load(optimizer, file);
    train(optimizer, parameters, 3, 5);
    expect_same_bits(parameters, expected, fmt::format("{} then {} workers", before, after));
  });
  // LibTorch's own optimizer reads it, too.
  const Tensors parameters = restored();
  Inner plain(parameters, options);
  torch::load(plain, file);
  train(plain, parameters, 3, 5);
  expect_same_bits(parameters, expected, fmt::format("{} workers, then LibTorch", before));
}

TEST(ShardedOptimizerState, OfAnyNumberOfWorkersIsReadByAnyOther) {
  for (const auto& [before, after] :
       {std::pair(1, 3), std::pair(2, 2), std::pair(3, 2), std::pair(4, 1)}) {
    expect_to_go_on<AdamW>(AdamWOptions(0.01).amsgrad(true), before, after);
    expect_to_go_on<torch::optim::Adam>(torch::optim::AdamOptions(0.01), before, after);
    expect_to_go_on<SGD>(torch::optim::SGDOptions(0.1).momentum(0.9), before, after);
    expect_to_go_on<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.01).centered(true),
                                           before, after);
    expect_to_go_on<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.1), before, after);
    expect_to_go_on<NormedSgd>(NormedSgdOptions(0.1), before, after);
  }
}

TEST(ShardedOptimizerState, OfTheOptimizerItselfIsRead) {
  const Tensors expected = some_parameters();
  AdamW itself(expected, AdamWOptions(0.01));
  train(itself, expected, 0, 3);
  std::ostringstream saved;
  torch::save(itself, saved);
  const Tensors weights = copies(expected);
  train(itself, expected, 3, 5);
  as_workers(3, [&](World world) {
    Tensors parameters = some_parameters();
    {
      const torch::NoGradGuard no_grad;
      for (size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(weights[i]);
    }
    ShardedOptimizer<AdamW> optimizer(parameters, AdamWOptions(0.01), world);
    std::istringstream stream(saved.str());
    torch::load(optimizer, stream);
    train(optimizer, parameters, 3, 5);
    expect_same_bits(parameters, expected, "from LibTorch's optimizer");
  });
}

TEST(ShardedOptimizerState, OfOtherParametersIsRefused) {
  as_workers(2, [](World world) {
    ShardedOptimizer<SGD> optimizer(some_parameters(), 0.1, world);
    const auto load = [&](const torch::optim::Optimizer& other) {
      std::stringstream stream;
      torch::save(other, stream);
      torch::load(optimizer, stream);
    };
    const Tensors parameters = some_parameters();
    expect_bad_input([&] { load(SGD(Tensors{parameters[0]}, 0.1)); },
                     {"group 0 of the archive has 1 parameters", "has 8"});
    const std::vector<OptimizerParamGroup> groups(2, OptimizerParamGroup(Tensors{parameters[0]}));
    expect_bad_input([&] { load(SGD(groups, 0.1)); },
                     {"the archive has 2 parameter groups", "has 1"});
    std::stringstream nothing;
    torch::serialize::OutputArchive().save_to(nothing);
    expect_bad_input([&] { torch::load(optimizer, nothing); },
                     {"the archive has no 'state'", "only rank 0"});
  });
}

TEST(ShardedOptimizerState, OfAnotherKindOfOptimizerIsRefused) {
  const Tensors parameters = {torch::ones({4})};
  SGD sgd(parameters, torch::optim::SGDOptions(0.1).momentum(0.9));
  step_with_ones(sgd, parameters);
  std::stringstream stream;
  torch::save(sgd, stream);
  as_workers(1, [&](World world) {
    ShardedOptimizer<AdamW> optimizer(parameters, AdamWOptions(0.01), world);
    expect_bad_input([&] { torch::load(optimizer, stream); },
                     {"another kind of optimizer", "momentum", "betas"});
  });
}

TEST(ShardedOptimizerState, InAFileThatIsNotThereIsRefusedByName) {
  const TemporaryFolder folder;
  const std::string file = (folder / "nothing.pt").string();
  as_workers(1, [&](World world) {
    const Tensors parameters = {torch::ones({4})};
    ShardedOptimizer<AdamW> optimizer(parameters, AdamWOptions(0.01), world);
    expect_bad_input([&] { optimizer.load_from(file); }, {file, "there is no such file"});
    step_with_ones(optimizer, parameters);
    optimizer.save_to(file);
    EXPECT_NO_THROW(optimizer.load_from(file));
  });
}

TEST(ShardedOptimizerState, OfAClassWithoutSaveIsRefused) {
  const auto errors = errors_of_workers(2, [](World world) {
    ShardedOptimizer<ForgetfulSgd> optimizer(some_parameters(), 0.1, world);
    optimizer.save_to("never");
  });
  EXPECT_TRUE(has(errors[0], "what this optimizer saves has no 'state'")) << errors[0];
  EXPECT_TRUE(has(errors[1], "rank 0")) << errors[1];
}

TEST(ShardedOptimizer, RefusesParametersThatItCannotDivide) {
  as_workers(2, [](World world) {
    const auto make = [&](const Tensors& parameters) {
      ShardedOptimizer<SGD> optimizer(parameters, 0.1, world);
    };
    const Tensor a = torch::ones({3}), b = torch::ones({4});
    expect_bad_input([&] { make({}); }, {"got no parameters", "model->parameters()"});
    expect_bad_input([&] { make({a, b, a}); },
                     {"parameter 2 of group 0 is also parameter 0 of group 0"});
    expect_bad_input([&] { make({a, Tensor()}); }, {"parameter 1 of group 0 is undefined"});
    expect_bad_input([&] { make({torch::ones({4, 4}).slice(1, 0, 2)}); },
                     {"parameter 0 of group 0", "view with gaps"});
    const std::vector<OptimizerParamGroup> twice(2, OptimizerParamGroup(Tensors{b}));
    expect_bad_input([&] { ShardedOptimizer<SGD> optimizer(twice, 0.1, world); },
                     {"parameter 0 of group 1 is also parameter 0 of group 0"});
  });
}

TEST(ShardedOptimizer, RefusesLbfgsByName) {
  as_workers(1, [](World world) {
    expect_bad_input(
        [&] {
          ShardedOptimizer<torch::optim::LBFGS> optimizer(some_parameters(),
                                                          torch::optim::LBFGSOptions(1), world);
        },
        {"LBFGS", "all parameters at once"});
  });
}

TEST(ShardedOptimizer, RefusesSparseGradientsAndLaterGroups) {
  EXPECT_EQ(errors_of_workers(2,
                              [](World world) {
                                Tensor parameter = torch::ones({4, 3}).requires_grad_();
                                ShardedOptimizer<SGD> optimizer(Tensors{parameter}, 0.1, world);
                                parameter.mutable_grad() = torch::ones({4, 3}).to_sparse();
                                expect_bad_input(
                                    [&] { optimizer.step(); },
                                    {"the gradient of parameter 0 of group 0 is sparse"});
                              }),
            transport::no_errors(2));
  as_workers(2, [](World world) {
    ShardedOptimizer<SGD> optimizer(some_parameters(), 0.1, world);
    optimizer.add_param_group(OptimizerParamGroup(Tensors{torch::ones({3})}));
    expect_bad_input([&] { optimizer.step(); }, {"parameter groups were changed"});
  });
}

std::vector<std::string> errors_of_making(
    const std::function<std::pair<Tensors, double>(int rank)>& what) {
  return errors_of_workers(2, [&](World world) {
    const auto [parameters, rate] = what(world.rank());
    ShardedOptimizer<SGD> optimizer(parameters, rate, world);
  });
}

TEST(ShardedOptimizer, NamesTheFirstDifferenceBetweenWorkers) {
  for (const std::string& error : errors_of_making([](int rank) {
         return std::pair(Tensors{torch::ones({3}), torch::ones({4 + rank})}, 0.1);
       }))
    EXPECT_TRUE(has(error,
                    "parameter 1 of group 0: rank 0 has Float 4, not trained, rank 1 has "
                    "Float 5, not trained"))
        << error;
  for (const std::string& error : errors_of_making(
           [](int rank) { return std::pair(Tensors{torch::ones({3})}, 0.1 * (1 + rank)); }))
    EXPECT_TRUE(has(error, "option 'lr' of group 0: rank 0 has 0.1, rank 1 has 0.2")) << error;
}

TEST(ShardedOptimizer, RefusesGradientsThatOnlySomeWorkersHave) {
  const auto errors = errors_of_workers(2, [](World world) {
    Tensor a = torch::ones({300}).requires_grad_(), b = torch::ones({300}).requires_grad_();
    ShardedOptimizer<SGD> optimizer(Tensors{a, b}, 0.1, world);
    (world.rank() == 0 ? a : b).mutable_grad() = torch::ones({300});
    optimizer.step();
  });
  EXPECT_TRUE(has(errors[0] + errors[1], "has gradients of other parameters")) << errors[0];
}

TEST(ShardedOptimizer, IsRefusedByJoin) {
  as_workers(2, [](World world) {
    torch::nn::Linear model(4, 2);
    DistributedDataParallel ddp(model, world);
    ShardedOptimizer<SGD> optimizer(model->parameters(), 0.1, world);
    expect_bad_input([&] { ddp.join([] {}, {&optimizer}); },
                     {"join with a ShardedOptimizer", "Uneven::pad"});
  });
}

}  // namespace
}  // namespace lockstep::optimized
