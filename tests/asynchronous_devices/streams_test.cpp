// The tests of virtual devices are part of this program, too: what holds for devices that compute
// inline holds for asynchronous ones.
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <latch>
#include <thread>

#include "devices.h"
#include "expect_error.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

using torch::Tensor;

c10::impl::VirtualGuardImpl guard_of(torch::Device on) {
  return c10::impl::VirtualGuardImpl(on.type());
}

c10::Stream other_stream(torch::Device on) {
  return guard_of(on).getStreamFromGlobalPool(on, false);
}

// Occupies the current stream of a device until `go`.
class Occupied {
 public:
  explicit Occupied(torch::Device on) : place_(torch::zeros({1}, on)) {
    worker_ = std::thread([this, stream = guard_of(place_.device()).getStream(place_.device())] {
      const c10::StreamGuard guard(stream);
      launch_kernel({place_}, [this](const std::vector<Tensor>&) {
        begun_.count_down();
        go_.wait();
      });
    });
    begun_.wait();
  }
  ~Occupied() {
    end();
    worker_.join();
  }
  void end() {
    if (!ended_.exchange(true)) go_.count_down();
  }

 private:
  Tensor place_;
  std::latch begun_{1}, go_{1};
  std::atomic<bool> ended_ = false;
  std::thread worker_;
};

TEST(Streams, ComputeWhileTheHostGoesOn) {
  const Tensor x = torch::ones({8}, device(0));
  const auto twice = [&] { return (x + x) * 2; };
  twice();  // learns shapes
  Occupied occupied(device(0));
  const Tensor y = twice();
  EXPECT_FALSE(guard_of(device(0)).queryStream(guard_of(device(0)).getStream(device(0))));
  EXPECT_EQ(y.sizes(), x.sizes());
  occupied.end();
  EXPECT_EQ(y.sum().item<float>(), 32);
}

TEST(Streams, OfTwoDevicesDoNotWaitForEachOther) {
  const Tensor x = torch::ones({8}, device(1));
  Occupied occupied(device(0));
  EXPECT_EQ((x + x).sum().item<float>(), 16);
}

TEST(Streams, OfOneDeviceDoNotWaitForEachOther) {
  const Tensor x = torch::ones({8}, device(0));
  synchronize(device(0));
  Occupied occupied(device(0));
  const c10::StreamGuard guard(other_stream(device(0)));
  EXPECT_EQ((x + x).sum().item<float>(), 16);
}

TEST(Streams, WaitForEvents) {
  const Tensor x = torch::zeros({8}, device(0));
  x.add_(1);
  synchronize(device(0));
  const c10::Stream other = other_stream(device(0));
  Tensor y;
  {
    Occupied occupied(device(0));
    x.add_(1);
    c10::Event added(device(0).type());
    added.record(guard_of(device(0)).getStream(device(0)));
    EXPECT_FALSE(added.query());
    added.block(other);
    const c10::StreamGuard guard(other);
    occupied.end();
    y = x * 1;
  }
  guard_of(device(0)).synchronizeStream(other);
  EXPECT_EQ(y.sum().item<float>(), 16);
}

TEST(Streams, CallAFunctionOfTheHostAfterWhatWasStartedBefore) {
  const Tensor x = torch::zeros({8}, device(0));
  x.add_(1);
  synchronize(device(0));
  std::atomic<bool> called = false;
  {
    Occupied occupied(device(0));
    launch_host_function(device(0), [&] { called = true; });
    EXPECT_FALSE(called);
  }
  synchronize(device(0));
  EXPECT_TRUE(called);
  launch_host_function(device(0), [] { throw Error("in the function"); });
  EXPECT_THROW(synchronize(device(0)), Error);
  expect_bad_input([] { launch_host_function(torch::kCPU, [] {}); }, {"cpu", "a virtual device"});
}

// In every run, not only in those where the wrong one is faster.
TEST(Streams, ThatMissAWaitAreFoundOut) {
  const Tensor x = torch::zeros({8}, device(0));
  x.add_(1);
  const c10::StreamGuard guard(other_stream(device(0)));
  expect_bad_input([&] { x.mul(2); },
                   {"aten::mul reads", "virtual:0", "aten::add_ writes", "c10::Event"});
  synchronize(device(0));
  EXPECT_EQ(x.mul(2).sum().item<float>(), 16);
}

TEST(Streams, ThatWriteWhatAnotherReadsAreFoundOut) {
  const Tensor x = torch::zeros({8}, device(0));
  synchronize(device(0));
  x + 1;
  const c10::StreamGuard guard(other_stream(device(0)));
  expect_bad_input([&] { x.zero_(); }, {"aten::zero_ writes", "aten::add reads"});
}

TEST(Streams, MayUseDifferentPartsOfOneTensor) {
  const Tensor x = torch::zeros({8}, device(0));
  synchronize(device(0));
  const Tensor front = x.slice(0, 0, 4), back = x.slice(0, 4, 8);
  front.add_(1);
  {
    const c10::StreamGuard guard(other_stream(device(0)));
    back.add_(2);
  }
  synchronize(device(0));
  EXPECT_EQ(x.sum().item<float>(), 12);
}

// In a process of its own, in which LibTorch has computed nothing before.
TEST(Streams, ThatBeginWhenTheProgramEndsLetItEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto begin_and_end = [] {
    const torch::Device first = device(0);
    torch::set_num_threads(1);  // makes LibTorch's pool of threads
    for (int i = 0; i < 3; ++i) guard_of(first).synchronizeStream(other_stream(first));
    std::exit(0);
  };
  EXPECT_EXIT(begin_and_end(), ::testing::ExitedWithCode(0), "");
}

// What LibTorch allocates for them must still be there.
TEST(Streams, ThatComputeWhenTheProgramEndsFinishFirst) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto compute_and_end = [] {
    const Tensor x = torch::ones({8, 8}, device(0));
    for (int i = 0; i < 20; ++i) (void)x.mm(x);  // the first one tells the shape of results
    launch_host_function(device(0),
                         [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
    for (int i = 0; i < 20; ++i) (void)x.mm(x);
    std::exit(0);
  };
  EXPECT_EXIT(compute_and_end(), ::testing::ExitedWithCode(0), "");
}

TEST(Errors, OfAsynchronousOperatorsAreTheHostsWhenItWaits) {
  const Tensor scores = torch::zeros({2, 3}, device(0)), good = torch::tensor({0, 2}).to(device(0)),
               bad = torch::tensor({0, 7}).to(device(0));
  torch::nll_loss(scores, good);
  const Tensor loss = torch::nll_loss(scores, bad);  // returns
  const auto text_of = [](const auto& action) -> std::string {
    try {
      action();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  const std::string late = text_of([] { synchronize(device(0)); });
  EXPECT_NE(late.find("out of bounds"), std::string::npos) << late;
  EXPECT_NE(late.find("aten::nll_loss_forward, which virtual:0"), std::string::npos) << late;
  const std::string again = text_of([&] { loss.item<float>(); });
  EXPECT_NE(again.find("not computed, because of an earlier error"), std::string::npos) << again;
  EXPECT_EQ(torch::nll_loss(scores, good).item<float>(), 0);
}

TEST(Errors, ReachStreamsThatWaitAndAreToldOnce) {
  const Tensor scores = torch::zeros({2, 3}, device(1));
  const auto loss = [&](int64_t label) {
    return torch::nll_loss(scores, torch::tensor({int64_t{0}, label}).to(device(1)));
  };
  loss(2).mul(2);
  const c10::Stream one = guard_of(device(1)).getStream(device(1)), other = other_stream(device(1));
  c10::Event computed(device(1).type());
  const Tensor bad = loss(7);
  computed.record(one);
  computed.block(other);
  EXPECT_ANY_THROW(guard_of(device(1)).synchronizeStream(other));
  guard_of(device(1)).synchronizeStream(one);
  EXPECT_EQ(loss(1).item<float>(), 0);
}

TEST(Errors, LeaveNothingCounted) {
  const Tensor x = torch::ones({2, 2}, device(2));
  const auto inverse = [](const Tensor& of) { return torch::linalg_inv(of + 1); };
  EXPECT_ANY_THROW(inverse(x));
  const int64_t before = memory_of(device(2)).in_use;
  EXPECT_ANY_THROW(inverse(x));
  EXPECT_EQ(memory_of(device(2)).in_use, before);
}

// The host frees tensors that a stream has not computed yet, as with GPUs.
TEST(Memory, OfTensorsIsCountedForAsLongAsTheHostHasThem) {
  const Tensor x = torch::ones({1000}, device(0));
  x + x;
  synchronize(device(0));
  Occupied occupied(device(0));
  const int64_t before = memory_of(device(0)).in_use;
  forget_peak_memory(device(0));
  for (int i = 0; i < 10; ++i) x + x;
  EXPECT_EQ(memory_of(device(0)).in_use, before);
  EXPECT_EQ(memory_of(device(0)).peak, before + 4000);
}

TEST(Memory, BeyondTheLimitIsRefusedBeforeAnythingIsComputed) {
  const Tensor x = torch::ones({kDeviceBytes / 16}, device(0));
  const auto sum = [&] { return x + x; };
  sum();
  const Tensor rest = torch::empty({kDeviceBytes / 8}, device(0));
  Occupied occupied(device(0));
  const int64_t before = memory_of(device(0)).in_use;
  EXPECT_THROW(sum(), OutOfMemory);
  EXPECT_EQ(memory_of(device(0)).in_use, before);
}

TEST(Copies, OfPinnedMemoryAreAsynchronous) {
  Tensor x = torch::zeros({100'000}, device(0));
  const Tensor host = torch::ones({100'000}).pin_memory(device(0));
  EXPECT_TRUE(host.is_pinned(device(0)));
  EXPECT_FALSE(torch::ones({1}).is_pinned(device(0)));
  EXPECT_TRUE(torch::ones({1}).pin_memory().is_pinned());
  synchronize(device(0));
  Occupied occupied(device(0));
  x.copy_(host, /*non_blocking=*/true);
  host.zero_();  // too early: the copy has not begun
  occupied.end();
  EXPECT_EQ(x.sum().item<float>(), 0);
}

TEST(Copies, OfOtherHostMemoryHaveTakenItWhenTheyReturn) {
  Tensor x = torch::zeros({100'000}, device(0));
  const Tensor host = torch::ones({100'000});
  synchronize(device(0));
  Occupied occupied(device(0));
  x.copy_(host, /*non_blocking=*/true);
  host.zero_();
  occupied.end();
  EXPECT_EQ(x.sum().item<float>(), 100'000);
}

TEST(Copies, BetweenDevicesAreOrderedWithBoth) {
  const Tensor x = torch::zeros({8}, device(0));
  x.add_(1) * 1;  // the host waits for the first call of its kind
  synchronize(device(0));
  Occupied occupied(device(0));
  x.add_(1);
  const Tensor y = x.to(device(1), /*non_blocking=*/true);
  x.add_(1);
  const Tensor z = y * 1;
  occupied.end();
  EXPECT_EQ(z.sum().item<float>(), 16);
}

TEST(RandomNumbers, AreDrawnInTheOrderOfTheHostsCalls) {
  const auto draw = [](torch::Device on) {
    torch::manual_seed(5);
    const Tensor first = torch::dropout(torch::ones({100}, on), 0.5, true);
    const Tensor host = torch::rand({10});
    return torch::cat({first.cpu(), host, torch::rand({10}, on).cpu()});
  };
  EXPECT_TRUE(draw(device(0)).equal(draw(torch::kCPU)));
  EXPECT_TRUE(draw(device(0)).equal(draw(torch::kCPU)));
}

TEST(Results, DependOnTheHostsValuesAtTheCall) {
  const Tensor x = torch::ones({8}, device(0)), number = torch::tensor(0.0F);
  const Tensor index = torch::tensor({0});
  std::vector<Tensor> products;
  for (int i = 0; i < 10; ++i) {
    number.fill_(i);
    products.push_back(x.mul(number));
    number.fill_(-1);
    index.fill_(i % 8);
    x.index_put_({index}, torch::ones({1}, device(0)));
    index.fill_(0);
  }
  for (int i = 0; i < 10; ++i) EXPECT_EQ(products[static_cast<size_t>(i)][3].item<float>(), i);
}

TEST(Results, HaveTheDefaultTypeOfTheirCall) {
  const Tensor a = torch::ones({3}, torch::kLong).to(device(0));
  for (int i = 0; i < 2; ++i) a.div(a);
  synchronize(device(0));
  torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  const Tensor quotient = a.div(a);
  synchronize(device(0));
  torch::set_default_dtype(caffe2::TypeMeta::Make<float>());
  EXPECT_EQ(quotient.scalar_type(), torch::kDouble);
}

TEST(Kernels, OfYourOwnMayNotUseTensorsOfTheirDevice) {
  const Tensor x = torch::ones({3}, device(0));
  EXPECT_THROW(launch_kernel({x}, [&](const std::vector<Tensor>&) { (x + 1).cpu(); }), Error);
}

TEST(Results, WhoseSizesDependOnValuesAreWaitedFor) {
  for (const int64_t ones : {1, 3, 2}) {
    Tensor x = torch::zeros({4}, device(0));
    x.slice(0, 0, ones).fill_(1);
    EXPECT_EQ(x.nonzero().size(0), ones);
    EXPECT_EQ(x.masked_select(x > 0).size(0), ones);
    EXPECT_EQ(x.index({x > 0}).size(0), ones);
  }
  EXPECT_EQ(torch::arange(0, 5, device(0)).size(0), 5);
  EXPECT_EQ(torch::arange(0, 9, device(0)).size(0), 9);
}

}  // namespace
}  // namespace lockstep
