#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "net/socket.h"
#include "net/tcp_rendezvous.h"

namespace lockstep::net {

inline Log no_log() {
  return [](const std::string&) {};
}

inline TcpRendezvousOptions rendezvous_options(int rank, int world_size, uint16_t port,
                                               double seconds = 10) {
  return {.rank = rank,
          .world_size = world_size,
          .host = "127.0.0.1",
          .port = port,
          .key = "a key",
          .timeout_seconds = seconds,
          .log = no_log()};
}

/// Runs every rank in a thread; returns what each threw, by rank.
inline std::vector<std::exception_ptr> play(int world_size,
                                            const std::function<void(int)>& rank_main) {
  std::vector<std::exception_ptr> thrown(static_cast<size_t>(world_size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        rank_main(rank);
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

}  // namespace lockstep::net
