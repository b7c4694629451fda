#pragma once

#include <unistd.h>

#include <string>

namespace lockstep::launch {

inline int wait_for_ever(int /*rank*/) {
  while (true) pause();
}

inline int run_shell(const std::string& script) {
  execlp("sh", "sh", "-c", script.c_str(), nullptr);
  return 127;
}

}  // namespace lockstep::launch
