#pragma once

#include <nccl.h>

#include <atomic>
#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "transport/rendezvous.h"

namespace lockstep::transport {

/// What c10d's ProcessGroupNCCL keeps its keys in. All that it needs of other ranks there is NCCL's
/// id, which rank 0 sets and the others get when a group's first collective begins: that goes by a
/// gather, as long as the store is open. Everything else stays in this process, where c10d's own
/// threads look for it.
class MeetingStore final : public c10d::HashStore {
 public:
  explicit MeetingStore(Rendezvous& rendezvous) : rendezvous_(&rendezvous) {}

  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    Rendezvous* const all = rendezvous_;
    if (all != nullptr && all->rank() == 0 && value.size() == NCCL_UNIQUE_ID_BYTES)
      meet(*all, {value.begin(), value.end()});
    HashStore::set(key, value);
  }

  std::vector<uint8_t> get(const std::string& key) override {
    Rendezvous* const all = rendezvous_;
    if (all != nullptr && all->rank() != 0 && !check({key})) {
      const std::string value = meet(*all, "");
      HashStore::set(key, {value.begin(), value.end()});
    }
    return HashStore::get(key);
  }

  void close() { rendezvous_ = nullptr; }
  /// What the rendezvous threw, of which c10d keeps but the text.
  std::exception_ptr trouble() const { return trouble_; }

 private:
  std::string meet(Rendezvous& all, const std::string& text) try {
    return all.gather(text)[0];
  } catch (...) {
    trouble_ = std::current_exception();
    throw;
  }

  std::atomic<Rendezvous*> rendezvous_;
  std::exception_ptr trouble_;
};

}  // namespace lockstep::transport
