#include "device/pinned_memory.h"

#include <unordered_set>

#include "base/thread_annotations.h"

namespace lockstep::device {
namespace {

struct Pinned {
  Mutex mutex;
  std::unordered_multiset<const void*> begins GUARDED_BY(mutex);
};

Pinned& pinned() {
  static Pinned& all = *new Pinned();  // tensors may outlive static objects
  return all;
}

}  // namespace

PinnedHere::PinnedHere(const void* begin) : begin_(begin) {
  const MutexLock lock(pinned().mutex);
  pinned().begins.insert(begin_);
}

PinnedHere::~PinnedHere() {
  const MutexLock lock(pinned().mutex);
  pinned().begins.erase(pinned().begins.find(begin_));
}

bool is_pinned(const void* begin) {
  const MutexLock lock(pinned().mutex);
  return pinned().begins.contains(begin);
}

}  // namespace lockstep::device
