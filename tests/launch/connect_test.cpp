#include "launch/connect.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "net/worlds.h"

namespace lockstep::launch {
namespace {

TEST(Connect, RefusesATransportThatDoesNotExistAndSuggestsTheNearest) {
  expect_bad_input([] { connect({}, {.transport = "tpc"}); }, {"'tpc'", "did you mean 'tcp'?"});
  expect_bad_input([] { connect({}, {.transport = ""}); },
                   {"hybrid, hybrid-mpi, mpi, nccl, shm, tcp"});
}

TEST(Connect, ConnectsTheWorkersOfAJobByAnyTransportThatNeedsNoLauncher) {
  for (const std::string name : {"shm", "tcp", "hybrid"}) {
    const auto port = net::free_port();
    net::expect_nothing(net::play(3, [&](int rank) {
      const auto transport = connect(
          {.rank = rank, .world = 3, .master_port = port, .key = "a key"}, {.transport = name});
      EXPECT_EQ(transport->name(), name == "hybrid" ? "shm" : name);
      EXPECT_EQ(transport->rank(), rank);
      EXPECT_EQ(transport->world_size(), 3);
      std::byte sent{1};
      std::byte received{};
      const transport::Outgoing out{(rank + 1) % 3, &sent, 1};
      const transport::Incoming in{(rank + 2) % 3, &received, 1};
      transport->exchange({}, {&out, 1}, {&in, 1}, Deadline::in(10));
      EXPECT_EQ(received, sent);
    }));
  }
}

TEST(Connect, NamesWhatWorkersDoNotWantAlike) {
  const auto connect_two = [](const ConnectOptions& first, const ConnectOptions& second) {
    const auto port = net::free_port();
    return net::play(2, [&](int rank) {
      connect({.rank = rank, .world = 2, .master_port = port, .key = "a key"},
              rank == 0 ? first : second);
    });
  };
  const auto expect_both = [](const std::vector<std::exception_ptr>& thrown, const char* expected) {
    for (const std::exception_ptr& error : thrown)
      EXPECT_EQ(message_of<Mismatch>([&] { net::rethrow(error); }), expected);
  };
  expect_both(connect_two({.transport = "tcp"}, {.transport = "shm"}),
              "ranks disagree on the transport: rank 0 has tcp, rank 1 has shm");
  expect_both(connect_two({.transport = "tcp", .facts = {{"the batch", "64"}}},
                          {.transport = "tcp", .facts = {{"the batch", "32"}}}),
              "ranks disagree on the batch: rank 0 has 64, rank 1 has 32");
}

TEST(Connect, SaysWhichWorkersDidNotCome) {
  const auto port = net::free_port();
  const std::string message = message_of<Timeout>([&] {
    connect({.rank = 0, .world = 2, .master_port = port, .key = "a key"},
            {.transport = "shm", .meeting_seconds = 0.2});
  });
  EXPECT_NE(message.find('1'), std::string::npos) << message;
}

}  // namespace
}  // namespace lockstep::launch
