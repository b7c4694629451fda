#pragma once

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

namespace lockstep::launch {

/// As long as this exists, SIGINT and SIGTERM arrive through a descriptor to poll, and SIGPIPE is
/// ignored.
class Signals {
 public:
  Signals() {
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    sigprocmask(SIG_BLOCK, &both, &mask_before_);
    pipe_before_ = signal(SIGPIPE, SIG_IGN);
    descriptor_ = signalfd(-1, &both, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Signals() {
    if (descriptor_ >= 0) close(descriptor_);
    restore();
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// In a worker: restores the signals' former handling.
  void restore() const {
    signal(SIGPIPE, pipe_before_);
    sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
  }
  pollfd waits_for() const { return {descriptor_, POLLIN, 0}; }

  /// The signal that has arrived, or 0.
  int take() const {
    signalfd_siginfo info;
    const bool came = read(descriptor_, &info, sizeof info) == sizeof info;
    return came ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t mask_before_ = {};
  sighandler_t pipe_before_ = SIG_DFL;
  int descriptor_ = -1;
};

}  // namespace lockstep::launch
