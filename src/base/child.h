#pragma once

#include <functional>
#include <string>

namespace lockstep {

/// Calls `work` in a child process and returns what it returned, so that this process keeps neither
/// the threads nor the memory that it needed. What `work` throws is thrown here, as BadInput or
/// Error; Error too if the child is killed. Call it before this process has threads.
std::string in_child_process(const std::function<std::string()>& work);

}  // namespace lockstep
