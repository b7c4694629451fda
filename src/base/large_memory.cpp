#include "base/large_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace lockstep {

void FreeMemory::operator()(std::byte* memory) const {
  std::free(memory);
}

std::unique_ptr<std::byte, FreeMemory> large_memory(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t alignment = bytes >= kHugePage ? kHugePage : 64;
  const size_t rounded = std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
  auto* const data = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (data == nullptr) throw std::bad_alloc();
  if (bytes >= kHugePage) madvise(data, rounded, MADV_HUGEPAGE);  // it does not matter if it fails
  return std::unique_ptr<std::byte, FreeMemory>(data);
}

}  // namespace lockstep
