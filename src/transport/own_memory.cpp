#include "transport/own_memory.h"

#include <cstring>

#include "base/large_memory.h"

namespace lockstep::transport {

Memory own_memory(size_t bytes) {
  auto memory = large_memory(bytes);
  std::memset(memory.get(), 0, bytes);
  return {std::move(memory), bytes};
}

}  // namespace lockstep::transport
