#include "launch/own_process.h"

#include <unistd.h>

#include <array>
#include <cstdio>

namespace lockstep::launch {
void become_rank(int /*rank*/) {
  if (isatty(STDOUT_FILENO) != 0) return;
  // With a buffer of its own: glibc would leave that of a stdout in use as it is until it is full.
  static std::array<char, BUFSIZ> lines;
  std::setvbuf(stdout, lines.data(), _IOLBF, lines.size());
}

}  // namespace lockstep::launch
