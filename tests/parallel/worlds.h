#pragma once

#include <gtest/gtest.h>
#include <torch/utils.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "parallel/world_of.h"
#include "transport/carriers.h"
#include "transport/ranks.h"

namespace lockstep {

using Connect =
    std::function<std::unique_ptr<transport::Transport>(transport::Rendezvous& rendezvous)>;

inline std::unique_ptr<transport::Transport> connect_by_shm(transport::Rendezvous& rendezvous) {
  return transport::connect_over("shm", rendezvous);
}

/// Threads play workers that are connected by shared memory, or otherwise; what each threw, ""
/// where all went well. Nobody leaves before all are done.
inline std::vector<std::string> errors_of_workers(int count,
                                                  const std::function<void(World)>& worker_main,
                                                  const Connect& connect = connect_by_shm) {
  return transport::errors_of_ranks(count, [&](transport::Rendezvous& rendezvous) {
    World world =
        world_of(std::make_unique<collective::Communicator>(
                     connect(rendezvous), collective::CommunicatorOptions{.timeout_seconds = 20}),
                 rendezvous.rank());
    std::exception_ptr thrown;
    try {
      worker_main(world);
    } catch (...) {
      thrown = std::current_exception();
    }
    rendezvous.gather("");
    if (thrown) std::rethrow_exception(thrown);
  });
}

/// LibTorch has one random generator for all threads. (A mutex inside the template below would be
/// one for each type of `make`.)
inline std::mutex& generator_mutex() {
  static std::mutex mutex;
  return mutex;
}

template <typename Make>
auto seeded(uint64_t seed, const Make& make) {
  const std::lock_guard lock(generator_mutex());
  torch::manual_seed(seed);
  return make();
}

inline void as_workers(int count, const std::function<void(World)>& worker_main) {
  EXPECT_EQ(errors_of_workers(count, worker_main), transport::no_errors(count));
}

}  // namespace lockstep
