#include "launch/stop_signals.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

// Globals, because signal handlers have no other access to them.
std::atomic<bool> asked = false;
std::atomic<int> signal_seen = 0;
std::atomic<int> descriptor = -1;
static_assert(std::atomic<int>::is_always_lock_free);

void ask_to_stop(int signal) {
  const int error_before = errno;
  asked = true;
  signal_seen = signal;
  eventfd_write(descriptor, 1);
  errno = error_before;
}

}  // namespace

void stop_on_signals() {
  descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (descriptor < 0)
    throw Error(fmt::format("cannot wait for signals: {}; see ulimit -n", std::strerror(errno)));
  struct sigaction action = {};
  action.sa_handler = ask_to_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);  // training continues if the reader of its output is gone
}

const std::atomic<bool>& stop_asked() {
  return asked;
}

int stop_descriptor() {
  return descriptor;
}

int stop_exit_code() {
  return signal_seen == 0 ? 0 : 128 + signal_seen;
}

}  // namespace lockstep::launch
