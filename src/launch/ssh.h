#pragma once

#include <string>

#include "launch/remote_job.h"
#include "lockstep/error.h"

namespace lockstep::launch {

struct SshOptions {
  std::string command = "ssh";  ///< with options, as a shell reads it: "ssh -p 2222 -i key"
  std::string lockstep;         ///< the program `lockstep` on the other host
  double connect_seconds = 30;  ///< for ssh to connect and the launcher there to answer
};

/// A host cannot be reached, has no Lockstep, or its connection was lost.
class HostFailed : public Error {
 public:
  /// The message is both, with the host before them.
  HostFailed(const std::string& host, const std::string& failure, const std::string& cure,
             int exit_code);

  const std::string& failure() const { return failure_; }
  const std::string& cure() const { return cure_; }
  int exit_code() const override { return exit_code_; }

 private:
  std::string failure_;
  std::string cure_;
  int exit_code_;
};

/// Starts the launcher on another host over ssh and stays connected with it until it has ended:
/// passes on its output and, to it, SIGINT and SIGTERM. Returns its exit code. Throws
/// HostFailed if the host cannot be reached, or has no Lockstep, or when the connection is lost.
int launch_over_ssh(const RemoteJob& job, const SshOptions& options);

/// Runs a short job as `launch_over_ssh` does, to see whether the host can be used: all of it must
/// end within `options.connect_seconds`, and nothing is printed. Throws HostFailed, also when the
/// job fails there, with what it said. Several threads may call this if SIGPIPE is ignored.
void try_over_ssh(const RemoteJob& job, const SshOptions& options);

}  // namespace lockstep::launch
