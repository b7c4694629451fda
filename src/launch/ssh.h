#pragma once

#include <string>

#include "launch/remote_job.h"

namespace lockstep::launch {

struct SshOptions {
  std::string command = "ssh";  ///< with options, as a shell reads it: "ssh -p 2222 -i key"
  std::string lockstep;         ///< the program `lockstep` on the other host
  double connect_seconds = 30;  ///< for ssh to connect and the launcher there to answer
};

/// Starts the launcher on another host over ssh and stays connected with it until it has ended:
/// passes on its output and, to it, SIGINT and SIGTERM. Returns its exit code. Throws Error if the
/// host cannot be reached, or has no Lockstep, or when the connection is lost.
int launch_over_ssh(const RemoteJob& job, const SshOptions& options);

}  // namespace lockstep::launch
