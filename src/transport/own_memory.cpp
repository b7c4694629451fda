#include "transport/own_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace lockstep::transport {

Memory own_memory(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t alignment = bytes >= kHugePage ? kHugePage : 64;
  const size_t rounded = std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
  auto* const data = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (data == nullptr) throw std::bad_alloc();
  std::memset(data, 0, rounded);
  return {{data, [](std::byte* memory) { std::free(memory); }}, bytes};
}

}  // namespace lockstep::transport
