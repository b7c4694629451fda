#pragma once

#include <cstddef>
#include <memory>

namespace lockstep {

struct FreeMemory {
  void operator()(std::byte* memory) const;
};

/// Memory that is not initialised, aligned to 64 bytes at least; much of it in the system's huge
/// pages: it is read and written with fewer misses of address translation, and processes that have
/// it fork and end faster. Throws std::bad_alloc.
std::unique_ptr<std::byte, FreeMemory> large_memory(size_t bytes);

}  // namespace lockstep
