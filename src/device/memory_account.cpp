#include "device/memory_account.h"

#include <fmt/ranges.h>

#include <atomic>
#include <utility>
#include <vector>

#include "base/units.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

thread_local std::optional<MemoryUse> use_of_thread;

std::atomic<MemoryAccount*> account_of_cpu = nullptr;  // constant once it is made

}  // namespace

MemoryScope::MemoryScope(MemoryUse use) : outer_(std::exchange(use_of_thread, use)) {}

MemoryScope::~MemoryScope() {
  use_of_thread = outer_;
}

std::string describe(const MemoryByUse& memory) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < memory.bytes.size(); ++i)
    if (memory.bytes[i] != 0)
      parts.push_back(fmt::format("{} {}", kMemoryUses[i], format_bytes(memory.bytes[i])));
  return parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", "));
}

MemoryAccount::MemoryAccount(std::string device, int64_t limit)
    : device_(std::move(device)), figures_{.limit = limit} {}

MemoryUse MemoryAccount::use_of_this_thread() const {
  return use_of_thread.value_or(use_of_other_threads_);
}

void MemoryAccount::add(int64_t bytes, MemoryUse use) {
  if (figures_.limit > 0 && bytes > figures_.limit - figures_.in_use) refuse(bytes);
  figures_.in_use += bytes;
  figures_.now[use] += bytes;
  if (figures_.in_use <= figures_.peak) return;
  figures_.peak = figures_.in_use;
  figures_.at_peak = figures_.now;
}

MemoryUse MemoryAccount::take(int64_t bytes) {
  const MutexLock lock(mutex_);
  const MemoryUse use = use_of_this_thread();
  add(bytes, use);
  return use;
}

void MemoryAccount::take(int64_t bytes, MemoryUse use) {
  const MutexLock lock(mutex_);
  add(bytes, use);
}

void MemoryAccount::give_back(int64_t bytes, MemoryUse use) noexcept {
  const MutexLock lock(mutex_);
  figures_.in_use -= bytes;
  figures_.now[use] -= bytes;
}

MemoryUse MemoryAccount::recount(int64_t bytes, MemoryUse before) noexcept {
  const MutexLock lock(mutex_);
  const MemoryUse use = use_of_this_thread();
  figures_.now[before] -= bytes;
  figures_.now[use] += bytes;
  if (figures_.in_use == figures_.peak) figures_.at_peak = figures_.now;
  return use;
}

void MemoryAccount::set_limit(int64_t limit) {
  const MutexLock lock(mutex_);
  figures_.limit = limit;
}

void MemoryAccount::set_use_of_other_threads(MemoryUse use) {
  const MutexLock lock(mutex_);
  use_of_other_threads_ = use;
}

DeviceMemory MemoryAccount::figures() const {
  const MutexLock lock(mutex_);
  return figures_;
}

void MemoryAccount::forget_peak() {
  const MutexLock lock(mutex_);
  figures_.peak = figures_.in_use;
  figures_.at_peak = figures_.now;
}

void MemoryAccount::refuse(int64_t bytes) const {
  throw OutOfMemory(
      device_, bytes, figures_.in_use, figures_.limit,
      fmt::format("{} is out of memory: {} are in use of {} ({}), and {} more were asked for; the "
                  "peak so far was {} ({})",
                  device_, format_bytes(figures_.in_use), format_bytes(figures_.limit),
                  describe(figures_.now), format_bytes(bytes), format_bytes(figures_.peak),
                  describe(figures_.at_peak)));
}

MemoryCharge::MemoryCharge(MemoryAccount* account, int64_t bytes, MemoryUse use)
    : bytes_(bytes), use_(use) {
  if (account != nullptr) account->take(bytes, use);
  account_ = account;
}

MemoryCharge MemoryCharge::of_counted(MemoryAccount& account, int64_t bytes, MemoryUse use) {
  MemoryCharge charge;
  charge.account_ = &account;
  charge.bytes_ = bytes;
  charge.use_ = use;
  return charge;
}

MemoryCharge::MemoryCharge(MemoryCharge&& other) noexcept
    : account_(std::exchange(other.account_, nullptr)), bytes_(other.bytes_), use_(other.use_) {}

MemoryCharge& MemoryCharge::operator=(MemoryCharge&& other) noexcept {
  drop();
  account_ = std::exchange(other.account_, nullptr);
  bytes_ = other.bytes_;
  use_ = other.use_;
  return *this;
}

void MemoryCharge::drop() noexcept {
  if (account_ != nullptr) std::exchange(account_, nullptr)->give_back(bytes_, use_);
}

MemoryAccount* cpu_account() {
  return account_of_cpu.load(std::memory_order_relaxed);
}

MemoryAccount& make_cpu_account() {
  // Never destroyed, since tensors may outlive static objects.
  static MemoryAccount& account = *new MemoryAccount("cpu", 0);
  account_of_cpu = &account;
  return account;
}

}  // namespace lockstep
