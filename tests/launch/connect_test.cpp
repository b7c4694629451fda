#include "launch/connect.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "launch/workers.h"
#include "transport/tcp_worlds.h"

namespace lockstep::launch {
namespace {

TEST(Connect, RefusesATransportThatDoesNotExistAndSuggestsTheNearest) {
  expect_bad_input([] { connect({}, {.transport = "tpc"}); }, {"'tpc'", "did you mean 'tcp'?"});
  expect_bad_input([] { connect({}, {.transport = ""}); }, {"shm, tcp, mpi, hybrid"});
}

TEST(Connect, ConnectsTheWorkersOfAJobByAnyTransportThatNeedsNoLauncher) {
  for (const std::string name : {"shm", "tcp", "hybrid"}) {
    const auto port = static_cast<uint16_t>(free_port());
    transport::expect_nothing(transport::play(3, [&](int rank) {
      const auto transport = connect(
          {.rank = rank, .world = 3, .master_port = port, .key = "a key"}, {.transport = name});
      EXPECT_EQ(transport->name(), name);
      EXPECT_EQ(transport->rank(), rank);
      EXPECT_EQ(transport->world(), 3);
      std::byte sent{1};
      std::byte received{};
      const transport::Outgoing out{(rank + 1) % 3, &sent, 1};
      const transport::Incoming in{(rank + 2) % 3, &received, 1};
      transport->exchange({}, {&out, 1}, {&in, 1}, Deadline::in(10));
      EXPECT_EQ(received, sent);
    }));
  }
}

TEST(Connect, SaysWhichWorkersDidNotCome) {
  const auto port = static_cast<uint16_t>(free_port());
  const std::string message = message_of<Timeout>([&] {
    connect({.rank = 0, .world = 2, .master_port = port, .key = "a key"},
            {.transport = "shm", .meeting_seconds = 0.2});
  });
  EXPECT_NE(message.find('1'), std::string::npos) << message;
}

}  // namespace
}  // namespace lockstep::launch
