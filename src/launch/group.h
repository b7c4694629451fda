#pragma once

#include <functional>
#include <memory>
#include <string>

#include "collective/communicator.h"
#include "launch/connect.h"
#include "launch/job.h"

namespace lockstep::launch {

struct GroupOptions {
  ConnectOptions connect;
  /// All-reduce algorithm: a name, or "auto": the fastest according to a short measurement of the
  /// transport; in shared memory always `direct`.
  std::string algorithm = "auto";
  /// What messages call that option, up to its value: as the caller's user knows it.
  std::string algorithm_option = "--algorithm ";
  double timeout_seconds = 600;
  double stall_seconds = 10;
  /// Receives reports of ranks that wait for long, and for whom; and that a measurement takes long.
  std::function<void(const std::string& message)> tell;
  /// Receives what `auto` measured.
  std::function<void(const std::string& message)> tell_more;
};

/// Connects this worker with all others of its job and returns their communicator. Throws what
/// `connect` throws, and BadInput for an algorithm that does not exist or that the transport does
/// not have.
std::unique_ptr<collective::Communicator> join_group(const Job& job, const GroupOptions& options);

/// The all-reduce algorithm of a group: its name, or "auto" if it depends on the size.
std::string algorithm_in_use(const GroupOptions& options, collective::Communicator& group);

/// Throws BadInput for an unknown algorithm, or one that `transport` does not have. `option` is as
/// in GroupOptions.
void check_algorithm(const std::string& algorithm, const std::string& transport,
                     const std::string& option = "--algorithm ");

}  // namespace lockstep::launch
