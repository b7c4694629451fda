#pragma once

// Memory that all ranks of a communicator share: a ring of bytes from each rank to each other.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>

namespace lockstep::nccl_stand_in {

inline constexpr int kMostRanks = 8;

struct Ring {
  static constexpr size_t kBytes = size_t{16} << 10;

  std::atomic<uint64_t> written;
  std::atomic<uint64_t> read;
  std::array<std::byte, kBytes> bytes;

  /// How many of `size` bytes there was room for.
  size_t put(const std::byte* from, size_t size) {
    const uint64_t at = written.load(std::memory_order_relaxed);
    const size_t room = kBytes - static_cast<size_t>(at - read.load(std::memory_order_acquire));
    const size_t now = std::min(size, room);
    for (size_t i = 0; i < now; ++i) bytes[(at + i) % kBytes] = from[i];
    written.store(at + now, std::memory_order_release);
    return now;
  }

  size_t take(std::byte* into, size_t size) {
    const uint64_t at = read.load(std::memory_order_relaxed);
    const auto there = static_cast<size_t>(written.load(std::memory_order_acquire) - at);
    const size_t now = std::min(size, there);
    for (size_t i = 0; i < now; ++i) into[i] = bytes[(at + i) % kBytes];
    read.store(at + now, std::memory_order_release);
    return now;
  }
};

struct Shared {
  std::atomic<int> connected;
  std::atomic<int> finalized;
  std::array<std::array<Ring, kMostRanks>, kMostRanks> rings;  ///< from, to
};

/// Where the memory is: a file without a name, which other processes open by its owner's process.
struct SharedFile {
  int pid = 0;
  int descriptor = -1;
};

inline SharedFile make_shared_file() {
  const int file = memfd_create("nccl_stand_in", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) throw std::runtime_error("no memory file");
  return {getpid(), file};
}

inline Shared* map_shared_file(const SharedFile& where) {
  const std::string path =
      "/proc/" + std::to_string(where.pid) + "/fd/" + std::to_string(where.descriptor);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<Shared*>(memory);
}

}  // namespace lockstep::nccl_stand_in
