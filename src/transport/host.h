#pragma once

#include <string>
#include <vector>

namespace lockstep::transport {

/// This machine's name.
std::string host_name();

/// Equal for two processes on one machine, in whatever containers.
std::string kernel_identity();

/// Equal for two processes of one machine that reach each other by its loopback interface.
std::string network_identity();

/// Equal for two processes that can share memory and see each other's processes: the kernel that
/// runs, and its namespaces of processes and networks.
std::string host_identity();

/// The processors that this process may run on.
std::vector<int> allowed_processors();

}  // namespace lockstep::transport
