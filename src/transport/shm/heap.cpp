#include "transport/shm/heap.h"

#include <algorithm>
#include <iterator>

namespace lockstep::transport {

std::optional<uint64_t> Heap::take(uint64_t bytes) {
  if (bytes > bytes_) return std::nullopt;
  const uint64_t size = std::max<uint64_t>(1, (bytes + kPage - 1) / kPage) * kPage;
  const MutexLock lock(mutex_);
  const auto found = std::find_if(free_.begin(), free_.end(),
                                  [&](const auto& range) { return range.second >= size; });
  if (found == free_.end()) return std::nullopt;
  const auto [offset, room] = *found;
  free_.erase(found);
  if (room > size) free_[offset + size] = room - size;
  taken_[offset] = size;
  return offset;
}

void Heap::give_back(uint64_t offset) {
  const MutexLock lock(mutex_);
  const auto taken = taken_.find(offset);
  if (taken == taken_.end()) return;
  const auto range = free_.emplace(offset, taken->second).first;
  taken_.erase(taken);
  const auto next = std::next(range);
  if (next != free_.end() && range->first + range->second == next->first) {
    range->second += next->second;
    free_.erase(next);
  }
  if (range == free_.begin()) return;
  const auto previous = std::prev(range);
  if (previous->first + previous->second != range->first) return;
  previous->second += range->second;
  free_.erase(range);
}

}  // namespace lockstep::transport
