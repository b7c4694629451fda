// A *header* before each piece of memory says which device it is counted for, and under which use.
// It is there for all memory, also where none is counted: LibTorch's raw_deallocate knows nothing
// but an address. What no virtual device computes is the CPU's, if its memory is counted.
#include "virtual_devices/counting_allocator.h"

#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstddef>
#include <new>
#include <utility>

#include "virtual_devices/libtorch.h"

namespace lockstep::virtual_devices {
namespace {

constexpr size_t kAlignment = 64;  // of LibTorch's own allocator

struct alignas(kAlignment) Header {
  uint64_t mark;
  MemoryAccount* account;  ///< nullptr: not counted
  int64_t bytes;
  MemoryUse use;
  uint64_t computing_on;  ///< number of the ComputingOn in which it was allocated; 0: in none
};

uint64_t mark_at(const void* place) {
  return reinterpret_cast<uint64_t>(place) ^ 0x6c6f636b73746570;
}

// Memory from before the allocator was installed has no header. What lies before it may then be
// any memory of the heap.
__attribute__((no_sanitize("address"))) bool has_mark(const Header* header) {
  return header->mark == mark_at(header);
}

thread_local ComputingOn* computing_on = nullptr;

std::atomic<uint64_t> last_number = 0;  // of a ComputingOn

c10::Allocator* plain_allocator = nullptr;  // constant once it is installed

void free_counted(void* data) {
  if (data == nullptr) return;
  Header* const header = static_cast<Header*>(data) - 1;
  if (!has_mark(header)) {
    plain_allocator->raw_deallocate(data);
    return;
  }
  header->mark = 0;
  if (header->account != nullptr) {
    header->account->give_back(header->bytes, header->use);
    if (computing_on != nullptr && computing_on->number() == header->computing_on)
      computing_on->note_freed(header->bytes);
  }
  plain_allocator->raw_deallocate(header);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) LOCKSTEP_ALLOCATE_CONST override {
    void* const data = bytes == 0 ? nullptr : allocate_counted(bytes);
    return {data, data, &free_counted, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_counted; }
  LOCKSTEP_COPY_DATA

 private:
  static void* allocate_counted(size_t bytes) {
    MemoryAccount* const account =
        computing_on != nullptr ? computing_on->account() : cpu_account();
    const auto counted = static_cast<int64_t>(bytes);
    MemoryUse use = MemoryUse::workspace;
    if (account != nullptr && computing_on != nullptr)
      account->take(counted, use);
    else if (account != nullptr)
      use = account->take(counted);
    try {
      void* const memory = plain_allocator->raw_allocate(bytes + sizeof(Header));
      uint64_t number = 0;
      if (computing_on != nullptr) {
        computing_on->note_allocated(counted);
        number = computing_on->number();
      }
      return new (memory) Header{mark_at(memory), account, counted, use, number} + 1;
    } catch (...) {
      if (account != nullptr) account->give_back(counted, use);
      throw;
    }
  }
};

}  // namespace

void install_counting_allocator() {
  // Never destroyed: devices may compute until the program has ended.
  static CountingAllocator& allocator = *new CountingAllocator();
  constexpr uint8_t kOverLibTorchs = 1;
  [[maybe_unused]] static const bool installed = [] {
    plain_allocator = c10::GetCPUAllocator();
    c10::SetCPUAllocator(&allocator, kOverLibTorchs);
    return true;
  }();
}

MemoryCharge take_over(const c10::DataPtr& memory) {
  if (memory.get() == nullptr || memory.get_deleter() != &free_counted) return {};
  Header* const header = static_cast<Header*>(memory.get()) - 1;
  if (!has_mark(header) || header->account == nullptr) return {};
  MemoryAccount& account = *std::exchange(header->account, nullptr);
  return MemoryCharge::of_counted(account, header->bytes,
                                  account.recount(header->bytes, header->use));
}

ComputingOn::ComputingOn(MemoryAccount* account)
    : account_(account), number_(++last_number), outer_(std::exchange(computing_on, this)) {}

ComputingOn::~ComputingOn() {
  computing_on = outer_;
}

}  // namespace lockstep::virtual_devices
