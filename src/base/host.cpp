#include "base/host.h"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace lockstep {
namespace {

std::string namespace_of(const char* link) {
  std::error_code error;
  return std::filesystem::read_symlink(link, error).string();
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name = {};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string kernel_identity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return boot;
}

std::string network_identity() {
  return kernel_identity() + " " + namespace_of("/proc/self/ns/net");
}

std::string host_identity() {
  return network_identity() + " " + namespace_of("/proc/self/ns/pid");
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

int64_t available_memory() {
  constexpr int64_t kKibibyte = 1024;
  std::ifstream facts("/proc/meminfo");
  for (std::string name; facts >> name;) {
    int64_t kibibytes = 0;
    if (name == "MemAvailable:" && facts >> kibibytes) return kibibytes * kKibibyte;
  }
  return int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE);
}

}  // namespace lockstep
