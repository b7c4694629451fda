#include "transport/host.h"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace lockstep::transport {

std::string host_name() {
  std::array<char, 256> name = {};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string host_identity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::string identity = boot;
  for (const char* space : {"/proc/self/ns/pid", "/proc/self/ns/net"}) {
    std::error_code error;
    identity += " " + std::filesystem::read_symlink(space, error).string();
  }
  return identity;
}

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return processors;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor)
    if (CPU_ISSET(processor, &set)) processors.push_back(processor);
  return processors;
}

}  // namespace lockstep::transport
