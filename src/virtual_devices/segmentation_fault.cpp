#include <unistd.h>

#include <csignal>
#include <string_view>

#include "virtual_devices/devices.h"
#include "virtual_devices/memory.h"

namespace lockstep::virtual_devices {
namespace {

struct sigaction before;

// On x86-64 the kernel does not say which address it was: SI_KERNEL is all.
void explain(int /*signal*/, siginfo_t* info, void* /*context*/) {
  constexpr std::string_view kWhy =
      "lockstep: segmentation fault at an address that no memory can have: most likely code on the "
      "host used data_ptr() of a tensor on a virtual device; copy it to the host first, by "
      ".cpu()\n";
  if (info->si_code == SI_KERNEL || is_hidden(info->si_addr)) {
    const auto written = write(STDERR_FILENO, kWhy.data(), kWhy.size());
    static_cast<void>(written);
  }
  sigaction(SIGSEGV, &before, nullptr);  // the instruction faults again
}

}  // namespace

void explain_segmentation_faults() {
  struct sigaction action = {};
  action.sa_sigaction = explain;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &before);
}

}  // namespace lockstep::virtual_devices
