// Which models DistributedDataParallel takes, and what may become of them afterwards.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "expect_error.h"
#include "lockstep/ddp.h"
#include "parallel/model_watch.h"
#include "parallel/worlds.h"

namespace lockstep {
namespace {

struct WithParameter : torch::nn::Module {
  explicit WithParameter(torch::Tensor value) {
    weight = register_parameter("weight", std::move(value));
  }
  torch::Tensor forward(const torch::Tensor& x) { return (weight * x).sum(); }
  torch::Tensor weight;
};

TEST(DdpModel, WithOtherStridesOnAWorkerIsAMismatch) {
  const auto errors = errors_of_workers(2, [](World everyone) {
    torch::Tensor value = torch::zeros({4, 3, 2, 2});
    if (everyone.rank() == 1) value = value.contiguous(torch::MemoryFormat::ChannelsLast);
    DistributedDataParallel ddp(std::make_shared<WithParameter>(value), everyone);
  });
  for (const std::string& error : errors)
    EXPECT_EQ(error,
              "ranks disagree on parameter 'weight': rank 0 has Float 4x3x2x2, rank 1 has Float "
              "4x3x2x2 of strides 12, 1, 6, 3");
}

TEST(DdpModel, InChannelsLastHasTheSameGradients) {
  as_workers(2, [](World everyone) {
    const torch::Tensor value =
        torch::zeros({4, 3, 2, 2}).contiguous(torch::MemoryFormat::ChannelsLast);
    auto net = std::make_shared<WithParameter>(value);
    DistributedDataParallel ddp(net, everyone);
    const torch::Tensor x = torch::arange(48.0F).view({4, 3, 2, 2});
    for (int pass = 0; pass < 2; ++pass) {
      net->zero_grad();
      ddp.forward(x * (1 + everyone.rank())).backward();
      EXPECT_TRUE(torch::equal(net->weight.grad(), x * 1.5));
    }
  });
}

TEST(DdpModel, OfAnotherTypeThanAtFirstIsNamed) {
  as_workers(2, [](World everyone) {
    torch::nn::Linear net(4, 3);
    DistributedDataParallel ddp(net, everyone);
    net->to(torch::kDouble);
    expect_bad_input([&] { ddp.forward(torch::ones({2, 4}, torch::kDouble)); },
                     {"parameter 'weight'", "Float 3x4", "Double 3x4"});
  });
}

TEST(DdpModel, WithAParameterUnfrozenLaterIsRefused) {
  as_workers(2, [](World everyone) {
    torch::nn::Linear net(4, 3);
    net->weight.requires_grad_(false);
    DistributedDataParallel ddp(net, everyone);
    ddp.forward(torch::ones({2, 4})).sum().backward();
    net->weight.requires_grad_(true);
    expect_bad_input([&] { ddp.forward(torch::ones({2, 4})); }, {"parameter 'weight'", "unfrozen"});
  });
}

TEST(DdpModel, WithAParameterUnfrozenLaterIsRefusedInBackwardToo) {
  as_workers(2, [](World everyone) {
    torch::nn::Linear net(4, 3);
    net->weight.requires_grad_(false);
    DistributedDataParallel ddp(net, everyone);
    net->weight.requires_grad_(true);
    expect_bad_input([&] { net(torch::ones({2, 4})).sum().backward(); },
                     {"parameter 'weight'", "unfrozen"});
  });
}

TEST(DdpModel, WithAParameterFrozenLaterIsRefused) {
  as_workers(2, [](World everyone) {
    torch::nn::Linear net(4, 3);
    DistributedDataParallel ddp(net, everyone);
    net->weight.requires_grad_(false);
    expect_bad_input([&] { ddp.forward(torch::ones({2, 4})); },
                     {"parameter 'weight'", "was trained and is frozen"});
  });
}

TEST(DdpModel, WithAModuleRegisteredLaterIsRefused) {
  as_workers(2, [](World everyone) {
    torch::nn::Sequential net(torch::nn::Linear(4, 3));
    DistributedDataParallel ddp(net, everyone);
    net->push_back(torch::nn::ReLU());  // has nothing to keep alike
    ddp.forward(torch::ones({2, 4})).sum().backward();
    net->push_back(torch::nn::Linear(3, 2));
    expect_bad_input([&] { ddp.forward(torch::ones({2, 4})); },
                     {"parameter '2.bias'", "registered"});
  });
}

TEST(DdpModel, WithAParameterRegisteredLaterIsRefusedSoon) {
  as_workers(2, [](World everyone) {
    torch::nn::Linear net(4, 3);
    DistributedDataParallel ddp(net, everyone);
    net->register_parameter("late", torch::ones({3}));
    expect_bad_input(
        [&] {
          for (int pass = 0; pass < parallel::ModelWatch::kPassesBetweenWalks; ++pass)
            ddp.forward(torch::ones({2, 4})).sum().backward();
        },
        {"parameter 'late'", "registered"});
  });
}

// Gradients that differ by rank: their mean is 0.5 everywhere.
void expect_mean_of_two(World& world, torch::nn::Linear& net,
                        DistributedDataParallel<torch::nn::LinearImpl>& ddp) {
  net->zero_grad();
  ddp.forward(torch::full({1, 4}, static_cast<float>(world.rank()))).sum().backward();
  EXPECT_TRUE(torch::equal(net->weight.grad(), torch::full({3, 4}, 0.5F))) << net->weight.grad();
}

TEST(DdpModel, LoadedLaterIsStillAveraged) {
  as_workers(2, [](World everyone) {
    torch::nn::Linear net(4, 3);
    std::stringstream file;
    torch::save(net, file);
    DistributedDataParallel ddp(net, everyone);
    torch::load(net, file);
    expect_mean_of_two(everyone, net, ddp);
    {
      torch::NoGradGuard no_grad;
      net->weight.set_(torch::ones({3, 4}));
    }
    expect_mean_of_two(everyone, net, ddp);
    expect_mean_of_two(everyone, net, ddp);
  });
}

TEST(DdpModel, LoadedBetweenForwardAndBackwardIsStillAveraged) {
  as_workers(2, [](World everyone) {
    torch::nn::Linear net(4, 3);
    DistributedDataParallel ddp(net, everyone);
    const auto loss = ddp.forward(torch::full({1, 4}, static_cast<float>(everyone.rank()))).sum();
    {
      torch::NoGradGuard no_grad;
      net->bias.set_(torch::ones({3}));
    }
    loss.backward();
    EXPECT_TRUE(torch::equal(net->weight.grad(), torch::full({3, 4}, 0.5F)));
    expect_mean_of_two(everyone, net, ddp);
  });
}

TEST(DdpModel, WithAnExpandedParameterIsRefusedByName) {
  as_workers(2, [](World everyone) {
    struct Expanded : torch::nn::Module {
      Expanded() { register_parameter("wide", torch::zeros({1, 4}).expand({3, 4})); }
    };
    auto net = std::make_shared<Expanded>();
    expect_bad_input([&] { DistributedDataParallel ddp(net, everyone); },
                     {"parameter 'wide'", ".clone()"});
  });
}

TEST(DdpModel, BelongsToOneDdp) {
  as_workers(2, [](World everyone) {
    torch::nn::Linear net(4, 3);
    {
      DistributedDataParallel ddp(net, everyone);
      expect_bad_input([&] { DistributedDataParallel second(net, everyone); },
                       {"parameter 'weight'", "another"});
      ddp.forward(torch::ones({2, 4})).sum().backward();
    }
    DistributedDataParallel third(net, everyone);
    third.forward(torch::ones({2, 4})).sum().backward();
  });
}

TEST(DdpModel, MayUseAParameterUnderTwoNames) {
  as_workers(2, [](World everyone) {
    struct Twice : torch::nn::Module {
      Twice() {
        weight = register_parameter("weight", torch::ones({64}));
        register_parameter("same", weight);
      }
      torch::Tensor forward(const torch::Tensor& x) { return (weight * x).sum(); }
      torch::Tensor weight;
    };
    auto net = std::make_shared<Twice>();
    DistributedDataParallel ddp(net, everyone, {.first_bucket_bytes = 1, .bucket_bytes = 1});
    for (int pass = 0; pass < 20; ++pass) {
      net->zero_grad();
      ddp.forward(torch::full({64}, 1.0F + static_cast<float>(everyone.rank()))).backward();
      EXPECT_TRUE(torch::equal(net->weight.grad(), torch::full({64}, 1.5F)));
      EXPECT_NEAR(ddp.clip_gradient_norm(100), 12, 1e-5) << "counted once";
    }
  });
}

TEST(DdpModel, ThatIsNullIsRefused) {
  as_workers(1, [](World everyone) {
    expect_bad_input(
        [&] { DistributedDataParallel ddp(std::shared_ptr<torch::nn::LinearImpl>(), everyone); },
        {"no model"});
    torch::nn::Linear empty{nullptr};
    expect_bad_input([&] { DistributedDataParallel ddp(empty, everyone); }, {"no model"});
  });
}

TEST(DdpModel, WithAComplexParameterIsRefusedByName) {
  as_workers(2, [](World everyone) {
    auto net = std::make_shared<WithParameter>(torch::zeros({2}, torch::kComplexFloat));
    expect_bad_input([&] { DistributedDataParallel ddp(net, everyone); },
                     {"parameter 'weight'", "ComplexFloat"});
  });
}

TEST(DdpModel, LoadedLaterKeepsItsBuffersAlike) {
  as_workers(2, [](World everyone) {
    torch::nn::BatchNorm1d norm(6);
    std::stringstream file;
    torch::save(norm, file);
    DistributedDataParallel ddp(norm, everyone);
    torch::load(norm, file);
    for (int pass = 0; pass < 2; ++pass)
      ddp.forward(torch::full({8, 6}, static_cast<float>(everyone.rank())));
    ddp.forward(torch::zeros({8, 6}));  // begins with rank 0's, and adds zeros everywhere
    EXPECT_TRUE(torch::equal(norm->running_mean, torch::zeros({6})));
  });
}

struct WithBuffers : torch::nn::Module {
  WithBuffers() {
    register_parameter("weight", torch::ones({2}));
    all = register_buffer("all", torch::zeros({4}));
    part = register_buffer("part", all.slice(0, 1, 3));
    across = register_buffer("across", torch::zeros({3, 2}).t());
    mask = register_buffer("mask", torch::zeros({3}, torch::kBool));
    small = register_buffer("small", torch::zeros({5}, torch::kShort));
    count = register_buffer("count", torch::zeros({}, torch::kLong));
  }
  void forward() {}
  torch::Tensor all, part, across, mask, small, count;
};

TEST(DdpModel, MayHaveBuffersOfAnyTypeAndThatShareMemory) {
  as_workers(2, [](World everyone) {
    auto net = std::make_shared<WithBuffers>();
    const torch::Tensor alias = net->all.detach();
    DistributedDataParallel ddp(net, everyone);
    const int mine = 5 + everyone.rank();
    net->all.fill_(mine);
    net->across.copy_(torch::arange(6).view({2, 3}) * mine);
    net->mask[everyone.rank()] = true;
    net->small.fill_(mine);
    net->count.fill_(mine);
    ddp.forward();
    EXPECT_TRUE(torch::equal(net->all, torch::full({4}, 5.0F)));
    EXPECT_TRUE(torch::equal(net->part, torch::full({2}, 5.0F)));
    EXPECT_TRUE(torch::equal(alias, torch::full({4}, 5.0F)));
    EXPECT_TRUE(torch::equal(net->across, torch::arange(6.0F).view({2, 3}) * 5));
    EXPECT_TRUE(torch::equal(net->mask, torch::tensor({true, false, false})));
    EXPECT_TRUE(torch::equal(net->small, torch::full({5}, 5, torch::kShort)));
    EXPECT_EQ(net->count.item<int64_t>(), 5);
  });
}

TEST(DdpModel, WithAnExpandedBufferIsRefusedByName) {
  as_workers(2, [](World everyone) {
    struct Expanded : torch::nn::Module {
      Expanded() {
        register_parameter("weight", torch::ones({2}));
        register_buffer("wide", torch::zeros({1, 4}).expand({3, 4}));
      }
    };
    auto net = std::make_shared<Expanded>();
    expect_bad_input([&] { DistributedDataParallel ddp(net, everyone); },
                     {"buffer 'wide'", ".clone()"});
  });
}

}  // namespace
}  // namespace lockstep
