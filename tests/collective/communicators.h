#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "transport/carriers.h"
#include "transport/ranks.h"

namespace lockstep::collective {

inline CommunicatorOptions always(Algorithm algorithm) {
  return {.timeout_seconds = 20, .choose = [algorithm](int64_t) { return algorithm; }};
}

/// Threads play the ranks of a group, over the carrier that is the test's parameter.
class Communicators : public ::testing::TestWithParam<std::string> {
 protected:
  using RankMain = std::function<void(Communicator&)>;

  /// What each rank threw: "" where all went well. Nobody leaves before all are done.
  static std::vector<std::string> errors_of_group(int world, const CommunicatorOptions& options,
                                                  const RankMain& rank_main) {
    return transport::errors_of_ranks(world, [&](transport::Rendezvous& rendezvous) {
      const auto group =
          std::make_unique<Communicator>(transport::connect_over(GetParam(), rendezvous), options);
      std::exception_ptr thrown;
      try {
        rank_main(*group);
      } catch (...) {
        thrown = std::current_exception();
      }
      rendezvous.gather("");
      if (thrown) std::rethrow_exception(thrown);
    });
  }

  static void in_group(int world, const CommunicatorOptions& options, const RankMain& rank_main) {
    EXPECT_EQ(errors_of_group(world, options, rank_main), transport::no_errors(world));
  }
  static void in_group(int world, const RankMain& rank_main) {
    in_group(world, {.timeout_seconds = 20}, rank_main);
  }
};

/// The suites that run over every carrier: the third has hosts of 1 and 1, 2, 3, ... ranks, the
/// last of 3 and 0, 1, 2, ...
inline auto every_carrier() {
  return ::testing::Values("shm", "tcp", "hybrid_1", "hybrid_3");
}

inline std::string name_of_carrier(const ::testing::TestParamInfo<std::string>& over) {
  return over.param;
}

}  // namespace lockstep::collective
