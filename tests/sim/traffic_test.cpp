#include "sim/traffic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace lockstep::sim {
namespace {

constexpr Network kSwitch{.bytes_per_second = 100};

std::vector<double> ends(Traffic& traffic, std::vector<Message> messages) {
  traffic.carry(messages);
  std::vector<double> result;
  for (const Message& message : messages) result.push_back(message.end);
  return result;
}

std::vector<double> ends(std::vector<Message> messages) {
  Traffic traffic(kSwitch, 4);
  return ends(traffic, std::move(messages));
}

TEST(Traffic, OfMessagesThatBeginTogetherEndsTogether) {
  EXPECT_EQ(ends({{1, 0, 100, 5}, {2, 0, 300, 5}}), (std::vector<double>{9, 9}));
}

TEST(Traffic, GivesAMessageThatBeginsEarlierTheLinkUntilTheOtherComes) {
  // Alone for one of its two seconds; then both have half a link.
  EXPECT_EQ(ends({{1, 0, 200, 0}, {2, 0, 200, 1}}), (std::vector<double>{3, 4}));
}

TEST(Traffic, LeavesALinkIdleBetweenMessages) {
  EXPECT_EQ(ends({{1, 0, 100, 0}, {2, 0, 100, 10}}), (std::vector<double>{1, 11}));
}

TEST(Traffic, WaitsForTheSlowestLinkOfThePath) {
  // Rank 0's link out is shared by two, rank 3's link in by three.
  EXPECT_EQ(ends({{0, 3, 100, 0}, {0, 2, 100, 0}, {1, 3, 100, 0}, {2, 3, 100, 0}}),
            (std::vector<double>{3, 2, 3, 3}));
}

TEST(Traffic, OfARoundComesAfterThatOfRoundsBefore) {
  Traffic traffic(kSwitch, 4);
  EXPECT_EQ(ends(traffic, {{1, 0, 100, 0}}), std::vector<double>{1});
  EXPECT_EQ(ends(traffic, {{2, 0, 100, 0}}), std::vector<double>{2});
  EXPECT_EQ(ends(traffic, {{2, 1, 100, 7}}), std::vector<double>{8});
  EXPECT_EQ(traffic.busy(), (std::vector<double>{0, 1, 2, 0, 2, 1, 0, 0}));
}

TEST(Traffic, OfNoBytesEndsWhenItBegins) {
  EXPECT_EQ(ends({{1, 0, 0, 5}}), std::vector<double>{5});
  EXPECT_EQ(ends({{1, 0, 0, 5}, {2, 3, 0, 6}}), (std::vector<double>{5, 6}));
}

TEST(Traffic, ThatBeginsAlmostTogetherEndsAlmostAsIfItDid) {
  std::mt19937 random(1);
  for (const Topology topology : {Topology::single_switch, Topology::ring, Topology::two_level}) {
    constexpr int kWorld = 12;
    const Network network{.topology = topology, .bytes_per_second = 100, .workers_per_host = 3};
    std::vector<Message> together;
    for (int i = 0; i < 200; ++i) {
      const int from = static_cast<int>(random() % kWorld);
      const int to = (from + 1 + static_cast<int>(random() % (kWorld - 1))) % kWorld;
      together.push_back({from, to, static_cast<int64_t>(random() % 1000), 0});
    }
    std::vector<Message> apart = together;
    for (Message& message : apart) message.begin = 1e-9 * static_cast<double>(random() % 100);
    Traffic one(network, kWorld);
    Traffic other(network, kWorld);
    one.carry(together);
    other.carry(apart);
    for (size_t i = 0; i < apart.size(); ++i) EXPECT_NEAR(apart[i].end, together[i].end, 1e-4);
    EXPECT_EQ(one.busy(), other.busy());
  }
}

TEST(Traffic, KeepsEveryLinkBusyWhileItHasWork) {
  std::mt19937 random(2);
  std::vector<Message> messages;
  double next = 0;
  for (int i = 0; i < 100; ++i) {
    const double begin = static_cast<double>(random() % 1000) / 10;
    messages.push_back({1 + i % 3, 0, static_cast<int64_t>(1 + random() % 300), begin});
  }
  Traffic traffic(kSwitch, 4);
  traffic.carry(messages);
  std::sort(messages.begin(), messages.end(),
            [](const Message& a, const Message& b) { return a.begin < b.begin; });
  double last = 0;
  for (const Message& message : messages) {
    next = std::max(next, message.begin) + static_cast<double>(message.bytes) / 100;
    last = std::max(last, message.end);
    EXPECT_GE(message.end, message.begin + static_cast<double>(message.bytes) / 100 - 1e-9);
  }
  EXPECT_NEAR(last, next, 1e-9);
}

}  // namespace
}  // namespace lockstep::sim
