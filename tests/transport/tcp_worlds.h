#pragma once

#include <functional>
#include <vector>

#include "net/worlds.h"
#include "transport/tcp/tcp.h"

namespace lockstep::transport {

using net::expect_nothing;
using net::free_port;
using net::play;
using net::rendezvous_options;
using net::rendezvous_over_tcp;
using net::rethrow;

/// Runs ranks with a tcp transport each in threads; returns what each threw, by rank.
inline std::vector<std::exception_ptr> play_tcp(int world_size, int streams,
                                                const std::function<void(Transport&)>& rank_main) {
  const uint16_t port = free_port();
  return play(world_size, [&](int rank) {
    const auto rendezvous = rendezvous_over_tcp(rendezvous_options(rank, world_size, port));
    const auto tcp =
        connect_tcp(*rendezvous, {.key = "a key", .streams = streams, .log = net::no_log()});
    rank_main(*tcp);
  });
}

}  // namespace lockstep::transport
