#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/thread_annotations.h"

namespace lockstep {

/// Values by key, for several threads. A value stays as it is for whoever has found it.
template <typename Value>
class SharedMap {
 public:
  /// A map with `most` values forgets them all when another one comes.
  explicit SharedMap(size_t most) : most_(most) {}

  /// nullptr if there is none.
  std::shared_ptr<const Value> find(const std::string& key) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : found->second;
  }

  void put(const std::string& key, Value value) EXCLUDES(mutex_) {
    auto kept = std::make_shared<const Value>(std::move(value));
    const MutexLock lock(mutex_);
    if (values_.size() >= most_) values_.clear();
    values_[key] = std::move(kept);
  }

  void erase(const std::string& key) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    values_.erase(key);
  }

  bool empty() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return values_.empty();
  }

 private:
  const size_t most_;
  Mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Value>> values_ GUARDED_BY(mutex_);
};

}  // namespace lockstep
