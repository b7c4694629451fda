#pragma once

#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "launch/worker_process.h"
#include "launch/workers.h"
#include "lockstep/error.h"

namespace lockstep::launch {

/// Runs `worker_main(rank)` in every worker, and returns how they ended.
template <typename Main>
std::vector<Ending> run_workers(const WorkersOptions& options, const Main& worker_main) {
  StartedWorkers started = start_workers(options);
  if (!started.rank) return std::move(started.endings);
  int code = 1;
  try {
    code = worker_main(*started.rank);
  } catch (const Error& error) {
    std::fputs(fmt::format("lockstep: {}\n", error.what()).c_str(), stderr);
    code = error.exit_code();
  } catch (const std::exception& error) {
    std::fputs(fmt::format("lockstep: unexpected error: {}\n", error.what()).c_str(), stderr);
  }
  end_worker(code);
}

inline int wait_for_ever(int /*rank*/) {
  while (true) pause();
}

inline int run_shell(const std::string& script) {
  execlp("sh", "sh", "-c", script.c_str(), nullptr);
  return 127;
}

}  // namespace lockstep::launch
