#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launch/job.h"

namespace lockstep::launch {

/// What the launcher on another host is told: which workers to start there, and how. It is sent
/// over the connection's stdin, since a command line would show the job's key to all users.
struct RemoteJob {
  std::string host;    ///< as messages call it
  std::string folder;  ///< working directory
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> program;
  int workers = 1;
  Job first;  ///< of the first worker there
};

/// One line. Throws BadInput for a text that is not UTF-8.
std::string encode(const RemoteJob& job);
/// Throws BadInput for anything else.
RemoteJob parse_remote_job(const std::string& line);

/// The jobs of its workers, in order of rank.
std::vector<Job> jobs_of(const RemoteJob& job);

/// The variables that workers on other hosts get: LOCKSTEP_*, except those that a launcher sets for
/// its own workers.
std::vector<std::pair<std::string, std::string>> environment_for_others();

/// In the launcher on the other host: reads the job from stdin, which then becomes /dev/null, and
/// says on stdout that it is there. From then on the launcher that sent the job passes on signals;
/// when it ends, in whatever way, or the connection is lost, this process is killed, and its
/// guardian kills its workers. Call it before any thread is started.
RemoteJob receive_remote_job();

/// The line on stdout by which the launcher on the other host says that it is there.
std::string ready_line();

}  // namespace lockstep::launch
