// What becomes of all workers when a step fails on one of them, or on all.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "base/clock.h"
#include "expect_error.h"
#include "lockstep/ddp.h"
#include "parallel/worlds.h"

namespace lockstep {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct ThrowBackwards : torch::autograd::Function<ThrowBackwards> {
  static torch::Tensor forward(AutogradContext* /*context*/, const torch::Tensor& x) {
    return x * 1;
  }
  static tensor_list backward(AutogradContext* /*context*/, const tensor_list& /*gradients*/) {
    throw std::runtime_error("thrown by a function's backward");
  }
};

// The second layer's gradient comes, then the pass may fail.
struct FragileImpl : torch::nn::Module {
  FragileImpl() {
    register_module("first", first);
    register_module("second", second);
  }
  torch::Tensor forward(const torch::Tensor& x, bool fails = false) {
    const torch::Tensor y = first(x);
    return second(fails ? ThrowBackwards::apply(y) : y).sum();
  }
  torch::nn::Linear first{4, 4}, second{4, 4};
};
TORCH_MODULE(Fragile);

const torch::Tensor& some_input() {
  static const torch::Tensor x = torch::ones({2, 4});
  return x;
}

struct ThrowOnce : GradientHook {
  explicit ThrowOnce(bool throws_here) : throws(throws_here) {}
  void reduce(GradientBucket& bucket, World& world) override {
    if (throws && ++calls == 2) throw std::runtime_error("thrown by a hook");
    world.all_reduce(bucket.values, Operation::mean);
  }
  const bool throws;
  int calls = 0;
};

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void expect_to_stay_broken(DistributedDataParallel<FragileImpl>& ddp, Fragile& net,
                           const std::string& why) {
  for (int i = 0; i < 2; ++i) {
    const std::string forward = message_of<Error>([&] { ddp.forward(some_input()); });
    EXPECT_TRUE(mentions(forward, why)) << forward;
    const std::string backward = message_of<Error>([&] { net(some_input()).backward(); });
    EXPECT_TRUE(mentions(backward, why)) << backward;
  }
}

TEST(DdpFailure, InABackwardPassIsSaidEverAfter) {
  as_workers(2, [](World everyone) {
    Fragile net;
    DistributedDataParallel ddp(net, everyone);
    EXPECT_ANY_THROW(ddp.forward(some_input(), true).backward());
    expect_to_stay_broken(ddp, net,
                          "a backward pass threw an exception before all gradients were computed");
  });
}

TEST(DdpFailure, InABackwardPassOfOneWorkerReachesTheOthers) {
  const Stopwatch watch;
  as_workers(2, [](World everyone) {
    Fragile net;
    DistributedDataParallel ddp(net, everyone);
    try {
      ddp.forward(some_input(), everyone.rank() == 1).backward();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const PeerLost& lost) {
      EXPECT_EQ(everyone.rank(), 0);
      EXPECT_EQ(lost.rank(), 1);
      EXPECT_TRUE(mentions(lost.what(), "a backward pass threw an exception before"))
          << lost.what();
    } catch (const std::exception& error) {
      EXPECT_EQ(everyone.rank(), 1) << error.what();
    }
    expect_to_stay_broken(ddp, net, "a backward pass threw an exception before");
  });
  EXPECT_LT(watch.seconds(), 10);
}

TEST(DdpFailure, OfAHookIsSaidEverAfter) {
  as_workers(2, [](World everyone) {
    Fragile net;
    DistributedDataParallel ddp(net, everyone, {.hook = std::make_shared<ThrowOnce>(true)});
    ddp.forward(some_input()).backward();
    EXPECT_ANY_THROW(ddp.forward(some_input()).backward());
    expect_to_stay_broken(ddp, net, "thrown by a hook");
  });
}

TEST(DdpFailure, OfAHookOnOneWorkerReachesTheOthers) {
  const Stopwatch watch;
  as_workers(2, [](World everyone) {
    Fragile net;
    auto hook = std::make_shared<ThrowOnce>(everyone.rank() == 1);
    DistributedDataParallel ddp(net, everyone, {.hook = hook});
    ddp.forward(some_input()).backward();
    const std::string message =
        message_of<std::exception>([&] { ddp.forward(some_input()).backward(); });
    EXPECT_TRUE(mentions(message, "thrown by a hook")) << message;
    expect_to_stay_broken(ddp, net, "thrown by a hook");
  });
  EXPECT_LT(watch.seconds(), 10);
}

TEST(DdpFailure, OfALostWorkerKeepsItsRank) {
  as_workers(2, [](World everyone) {
    Fragile net;
    DistributedDataParallel ddp(net, everyone);
    if (everyone.rank() == 1) return everyone.abort("the disk is full");
    for (int i = 0; i < 2; ++i) {
      try {
        ddp.forward(some_input()).backward();
        ADD_FAILURE() << "nothing was thrown";
      } catch (const PeerLost& lost) {
        EXPECT_EQ(lost.rank(), 1);
        EXPECT_TRUE(mentions(lost.what(), "the disk is full")) << lost.what();
      }
    }
  });
}

TEST(DdpFailure, OfAnUnusedParameterNamesItEverAfter) {
  as_workers(2, [](World everyone) {
    Fragile net;
    DistributedDataParallel ddp(net, everyone);
    const auto skip_first = [&] { net->second(some_input()).sum().backward(); };
    const std::string first = message_of<Error>(skip_first);
    EXPECT_TRUE(mentions(first, "'first.weight'")) << first;
    expect_to_stay_broken(ddp, net, "'first.weight'");
    const std::string later = message_of<Error>([&] { everyone.barrier(); });
    EXPECT_TRUE(mentions(later, "'first.weight'")) << later;
  });
}

TEST(DdpFailure, InsideAJoinedLoopReachesTheOthers) {
  const Stopwatch watch;
  const auto errors = errors_of_workers(2, [](World everyone) {
    Fragile net;
    DistributedDataParallel ddp(net, everyone);
    ddp.join(
        [&] {
          for (int i = 0; i < 3; ++i) {
            if (everyone.rank() == 1 && i == 1) throw std::runtime_error("thrown in the loop");
            ddp.forward(some_input()).backward();
          }
        },
        {});
  });
  for (const std::string& error : errors)
    EXPECT_TRUE(mentions(error, "thrown in the loop")) << error;
  EXPECT_LT(watch.seconds(), 10);
}

}  // namespace
}  // namespace lockstep
