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
  /// Of all-reduce: a name, or "auto": the cheapest by a short measurement of the transport; where
  /// workers share memory always `direct`.
  std::string algorithm = "auto";
  double timeout_seconds = 600;
  double stall_seconds = 10;
  /// Gets who waits for whom.
  std::function<void(const std::string& message)> tell;
  /// Gets what `auto` measured.
  std::function<void(const std::string& message)> tell_more;
};

/// Connects this worker with all others of its job, and makes ready what they do together. Throws
/// what `connect` throws; BadInput for an algorithm that does not exist or does not fit.
std::unique_ptr<collective::Communicator> join_group(const Job& job, const GroupOptions& options);

/// Which all-reduce a group uses: its name, or "auto" where that depends on the bytes.
std::string algorithm_in_use(const GroupOptions& options, collective::Communicator& group);

/// Throws BadInput for an algorithm that is neither "auto" nor a name, or that `transport` does not
/// have.
void check_algorithm(const std::string& algorithm, const std::string& transport);

}  // namespace lockstep::launch
