#pragma once

#include <array>
#include <random>
#include <vector>

#include "net/socket.h"

namespace lockstep::net {

/// How a program behaves that connects to a job's port and is no part of the job.
enum class Habit { sends_nothing, sends_garbage, hangs_up };

/// Connections to `port` that behave so; open as long as they are kept.
inline std::vector<Descriptor> strangers(uint16_t port, int count, Habit habit) {
  std::mt19937 random(1);
  std::vector<Descriptor> made;
  const Address address = resolve("127.0.0.1", port).at(0);
  for (int i = 0; i < count; ++i) {
    Descriptor socket = start_connecting(address);
    pollfd wait = {.fd = socket.get(), .events = POLLOUT, .revents = 0};
    wait_for({&wait, 1}, 5);
    std::array<std::byte, 300> noise;
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
    if (habit == Habit::sends_garbage) send_some(socket.get(), noise);
    if (habit != Habit::hangs_up) made.push_back(std::move(socket));
  }
  return made;
}

inline void wait_until_listening(uint16_t port) {
  const Address master = resolve("127.0.0.1", port).at(0);
  for (int error = -1; error != 0;) {
    const Descriptor probe = start_connecting(master);
    pollfd wait = {.fd = probe.get(), .events = POLLOUT, .revents = 0};
    if (probe) wait_for({&wait, 1}, 1);
    error = probe ? connecting_error(probe.get()) : -1;
    // A socket can connect to itself when it is given the port it dials.
    if (local_address(probe.get()).text() == remote_address(probe.get()).text()) error = -1;
  }
}

}  // namespace lockstep::net
