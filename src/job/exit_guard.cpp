#include "job/exit_guard.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace lockstep::job {
namespace {

// Global, because an exit handler has no other access to it.
std::atomic<int> guards = 0;

void on_exit() {
  if (guards == 0) return;
  std::fflush(stdout);
  std::fputs("lockstep: a model, data set or objective called exit(): throw an exception instead\n",
             stderr);
  std::_Exit(1);
}

}  // namespace

ExitGuard::ExitGuard() {
  [[maybe_unused]] static const bool registered = std::atexit(on_exit) == 0;
  ++guards;
}

ExitGuard::~ExitGuard() {
  --guards;
}

}  // namespace lockstep::job
