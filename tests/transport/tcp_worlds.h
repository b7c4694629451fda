#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "transport/free_port.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tcp.h"
#include "transport/tcp/tcp_rendezvous.h"

namespace lockstep::transport {

inline Log silent() {
  return [](const std::string&) {};
}

inline Meeting meeting_of(int rank, int world, uint16_t port, double seconds = 10) {
  return {.rank = rank,
          .world = world,
          .host = "127.0.0.1",
          .port = port,
          .key = "a key",
          .seconds = seconds,
          .log = silent()};
}

/// Threads play ranks; returns what each threw, by rank.
inline std::vector<std::exception_ptr> play(int world, const std::function<void(int)>& rank_does) {
  std::vector<std::exception_ptr> thrown(static_cast<size_t>(world));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      try {
        rank_does(rank);
      } catch (...) {
        thrown[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

inline void rethrow(const std::exception_ptr& thrown) {
  if (thrown) std::rethrow_exception(thrown);
}

inline void expect_nothing(const std::vector<std::exception_ptr>& thrown) {
  for (size_t rank = 0; rank < thrown.size(); ++rank)
    EXPECT_NO_THROW(rethrow(thrown[rank])) << "rank " << rank;
}

/// Ranks with a tcp transport each.
inline std::vector<std::exception_ptr> play_tcp(int world, int streams,
                                                const std::function<void(Transport&)>& rank_does) {
  const uint16_t port = free_port();
  return play(world, [&](int rank) {
    const auto meeting = meet_over_tcp(meeting_of(rank, world, port));
    const auto tcp = connect_tcp(*meeting, {.key = "a key", .streams = streams, .log = silent()});
    rank_does(*tcp);
  });
}

}  // namespace lockstep::transport
