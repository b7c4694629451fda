#pragma once

#include <memory>
#include <string>

#include "transport/hybrid.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

namespace lockstep::transport {

/// Connects by "shm", "tcp", or "hybrid_K": shared memory and TCP between two hosts that are none,
/// of which the first has ranks 0 to K-1.
inline std::unique_ptr<Transport> connect_over(const std::string& carrier, Rendezvous& rendezvous,
                                               double silence_seconds = 10) {
  if (carrier == "shm") return connect_shm(rendezvous, {.silence_seconds = silence_seconds});
  auto tcp = connect_tcp(rendezvous, {.key = "a key",
                                      .silence_seconds = silence_seconds,
                                      .bind = "127.0.0.1",
                                      .log = [](const std::string&) {}});
  if (carrier == "tcp") return tcp;
  const int on_first = std::stoi(carrier.substr(carrier.find('_') + 1));
  return connect_hybrid(rendezvous, std::move(tcp),
                        {.silence_seconds = silence_seconds,
                         .host = rendezvous.job_rank() < on_first ? "first" : "second"});
}

}  // namespace lockstep::transport
