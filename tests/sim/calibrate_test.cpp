#include "sim/calibrate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

#include "transport/carriers.h"
#include "transport/ranks.h"

namespace lockstep::sim {
namespace {

using collective::Communicator;
using transport::errors_of_ranks;
using transport::no_errors;
using transport::Rendezvous;

void expect_plausible(const Network& network) {
  EXPECT_NO_THROW(check(network));
  for (const double value : {network.latency, network.overhead, network.overhead_per_byte,
                             network.bytes_per_second, network.reduce_bytes_per_second})
    EXPECT_TRUE(std::isfinite(value) && value > 0) << value;
  EXPECT_TRUE(std::isfinite(network.wake) && network.wake >= 0) << network.wake;
  EXPECT_GE(network.burst_bytes, 0);
}

TEST(Calibration, FindsTheSameNetworkOnEveryRank) {
  for (const int world : {2, 3}) {
    std::mutex mutex;
    std::vector<Network> found;
    EXPECT_EQ(errors_of_ranks(world,
                              [&](Rendezvous& rendezvous) {
                                Communicator group(transport::connect_over("tcp", rendezvous));
                                const Network network = calibrate(group);
                                const std::lock_guard lock(mutex);
                                found.push_back(network);
                              }),
              no_errors(world));
    ASSERT_EQ(found.size(), static_cast<size_t>(world));
    expect_plausible(found[0]);
    for (const Network& network : found) {
      EXPECT_EQ(network.latency, found[0].latency);
      EXPECT_EQ(network.overhead, found[0].overhead);
      EXPECT_EQ(network.overhead_per_byte, found[0].overhead_per_byte);
      EXPECT_EQ(network.wake, found[0].wake);
      EXPECT_EQ(network.bytes_per_second, found[0].bytes_per_second);
      EXPECT_EQ(network.reduce_bytes_per_second, found[0].reduce_bytes_per_second);
      EXPECT_EQ(network.burst_bytes, found[0].burst_bytes);
      EXPECT_EQ(network.processors, found[0].processors);
    }
    EXPECT_NE(describe(found[0]).find("us of processor time a message"), std::string::npos);
  }
}

// Every exchange takes some time more.
class SlowTransport : public transport::Transport {
 public:
  SlowTransport(std::unique_ptr<Transport> inner, std::chrono::milliseconds delay,
                std::atomic<int>& exchanges)
      : inner_(std::move(inner)), delay_(delay), exchanges_(exchanges) {}

  const char* name() const override { return "slow"; }
  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  const std::vector<transport::Peer>& peers() const override { return inner_->peers(); }
  void exchange(const transport::Label& label, std::span<const transport::Outgoing> outgoing,
                std::span<const transport::Incoming> incoming, Deadline deadline) override {
    std::this_thread::sleep_for(delay_);
    ++exchanges_;
    inner_->exchange(label, outgoing, incoming, deadline);
  }
  transport::Memory allocate(size_t bytes) override { return inner_->allocate(bytes); }
  void abort(const std::string& why, int culprit) noexcept override { inner_->abort(why, culprit); }
  void check_peers() override { inner_->check_peers(); }
  void watch_waits(const transport::WaitWatch& watch) override { inner_->watch_waits(watch); }
  void tell_whereabouts(const transport::Whereabouts& mine) override {
    inner_->tell_whereabouts(mine);
  }
  std::optional<transport::Whereabouts> whereabouts_of(int peer) override {
    return inner_->whereabouts_of(peer);
  }
  std::unique_ptr<Transport> connect_again(Rendezvous& rendezvous) const override {
    return inner_->connect_again(rendezvous);
  }

 private:
  const std::unique_ptr<Transport> inner_;
  const std::chrono::milliseconds delay_;
  std::atomic<int>& exchanges_;
};

// All measurements together are thousands of exchanges; on a slow network only some are made.
TEST(Calibration, MeasuresLessOnASlowNetworkAndSaysSo) {
  std::atomic<int> exchanges = 0;
  std::atomic<int> told = 0;
  EXPECT_EQ(errors_of_ranks(2,
                            [&](Rendezvous& rendezvous) {
                              Communicator group(std::make_unique<SlowTransport>(
                                  transport::connect_over("tcp", rendezvous),
                                  std::chrono::milliseconds(4), exchanges));
                              CalibrateOptions options{.most_seconds = 0.4, .notice_seconds = 0.1};
                              options.tell = [&](const std::string& message) {
                                EXPECT_NE(message.find("measuring the network"), std::string::npos)
                                    << message;
                                EXPECT_EQ(group.rank(), 0);
                                ++told;
                              };
                              expect_plausible(calibrate(group, options));
                            }),
            no_errors(2));
  EXPECT_LT(exchanges / 2, 300);
  EXPECT_EQ(told, 1);
}

TEST(Calibration, LeavesTheGroupUsable) {
  EXPECT_EQ(errors_of_ranks(2,
                            [](Rendezvous& rendezvous) {
                              Communicator group(transport::connect_over("tcp", rendezvous));
                              calibrate(group);
                              std::vector<float> values(100, 1);
                              group.all_reduce(
                                  {reinterpret_cast<std::byte*>(values.data()), 100, Type::f32});
                              EXPECT_EQ(values, std::vector<float>(100, 2));
                            }),
            no_errors(2));
}

TEST(Calibration, OfOneRankMeasuresNothing) {
  EXPECT_EQ(errors_of_ranks(1,
                            [](Rendezvous& rendezvous) {
                              Communicator group(transport::connect_over("shm", rendezvous));
                              EXPECT_EQ(calibrate(group).latency, Network().latency);
                            }),
            no_errors(1));
}

}  // namespace
}  // namespace lockstep::sim
