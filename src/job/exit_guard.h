#pragma once

namespace lockstep::job {

/// While one exists, plugins may run. If one calls exit(), the process ends with a message and exit
/// code 1, whatever code was given: a training that has not finished must not look like a success.
class ExitGuard {
 public:
  ExitGuard();
  ~ExitGuard();
  ExitGuard(const ExitGuard&) = delete;
  ExitGuard& operator=(const ExitGuard&) = delete;
};

}  // namespace lockstep::job
