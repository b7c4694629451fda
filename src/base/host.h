#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// This machine's name.
std::string host_name();

/// Equal for two processes on one machine, even in different containers.
std::string kernel_identity();

/// Equal for two processes that can reach each other over a loopback interface.
std::string network_identity();

/// Equal for two processes that can share memory and see each other's process ids: same kernel,
/// same network and process namespaces.
std::string host_identity();

/// The processors on which this process may run.
std::vector<int> allowed_processors();

/// Bytes of memory that programs can still get on this machine, as Linux estimates them.
int64_t available_memory();

}  // namespace lockstep
