#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/shm/heap.h"
#include "transport/transport.h"

namespace lockstep::transport {

inline constexpr size_t kCacheLine = 64;
/// Where a rank puts small data for all to read; there are two per rank, used in turn.
inline constexpr size_t kMailboxBytes = size_t{64} * 1024;
/// Messages from one rank to another that may wait at a time.
inline constexpr uint64_t kQueueLength = 16;

/// How a rank is woken. `sleeping` is set before it sleeps, so that the others need no system call
/// while it does not.
struct alignas(kCacheLine) Bell {
  std::atomic<uint32_t> rings;
  std::atomic<uint32_t> sleeping;
};

/// Signs of life.
struct alignas(kCacheLine) Pulse {
  std::atomic<uint64_t> beats;
  std::atomic<uint32_t> left;  ///< ended in good order
};

/// A rank's entry into a collective. The line is complete once `sequence` has the number of the
/// collective.
struct alignas(kCacheLine) Notice {
  static constexpr size_t kMostTerms = 40;

  std::atomic<uint64_t> sequence;
  Label label;
  uint32_t terms;
  uint64_t offsets[kMostTerms];  ///< of the terms, in the rank's heap
};

struct alignas(kCacheLine) Finish {
  std::atomic<uint64_t> sequence;
};

struct Parcel {
  Label label;
  uint64_t offset;  ///< in the sender's heap
  uint64_t bytes;
};

/// Messages from one rank to another: the sender moves `posted`, the receiver `taken`.
struct Queue {
  alignas(kCacheLine) std::atomic<uint64_t> posted;
  alignas(kCacheLine) std::atomic<uint64_t> taken;
  alignas(kCacheLine) Parcel parcels[kQueueLength];
};

/// The last words of a rank that gave up.
struct alignas(kCacheLine) LastWords {
  std::atomic<uint32_t> state;  ///< 0: nobody, 1: being written, 2: there
  int32_t rank;
  char text[1024];
};

/// Memory that the ranks of one host share: a control block and a heap per rank. It has no name:
/// rank 0 makes an anonymous file that the others open through rank 0's process, so nothing is left
/// behind whenever and however ranks end.
class SharedSegment {
 public:
  /// Collective. Throws BadInput where not all ranks are on one host; "": as `host_identity` says.
  static std::shared_ptr<SharedSegment> open(Rendezvous& rendezvous, const std::string& host = "");

  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_; }
  const std::vector<Peer>& peers() const { return peers_; }
  const Peer& peer(int rank) const { return peers_[static_cast<size_t>(rank)]; }
  /// Whether the ranks have fewer processors than they are.
  bool crowded() const { return crowded_; }

  Bell& bell(int rank) const { return at<Bell>(bells_)[rank]; }
  Pulse& pulse(int rank) const { return at<Pulse>(pulses_)[rank]; }
  Notice& notice(int rank, uint64_t sequence) const {
    return at<Notice>(notices_)[2 * rank + static_cast<int>(sequence % 2)];
  }
  Finish& finish(int rank) const { return at<Finish>(finishes_)[rank]; }
  Queue& queue(int from, int to) const { return at<Queue>(queues_)[from * world_ + to]; }
  LastWords& last_words() const { return *at<LastWords>(last_words_); }
  std::byte* mailbox(int rank, uint64_t sequence) const {
    return base_ + mailboxes_ +
           kMailboxBytes * (2 * static_cast<size_t>(rank) + static_cast<size_t>(sequence % 2));
  }

  std::byte* address(int rank, uint64_t offset) const {
    return base_ + heaps_ + heap_.bytes() * static_cast<size_t>(rank) + offset;
  }
  /// Where `data` lies in this rank's heap; nothing where it lies elsewhere.
  std::optional<uint64_t> offset_of(const void* data) const;

  /// Zeroed memory of this rank's heap, which keeps the segment alive.
  static Memory allocate(const std::shared_ptr<SharedSegment>& segment, size_t bytes);

 private:
  SharedSegment(int rank, int world, uint64_t heap_bytes);

  void lay_out();
  void map(int file);
  void release(uint64_t offset, size_t bytes);

  template <typename T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }

  // Constant once opened.
  const int rank_;
  const int world_;
  std::vector<Peer> peers_;
  bool crowded_ = false;
  size_t bells_ = 0, pulses_ = 0, notices_ = 0, finishes_ = 0, queues_ = 0, last_words_ = 0;
  size_t mailboxes_ = 0, heaps_ = 0, bytes_ = 0;
  std::byte* base_ = nullptr;
  int file_ = -1;

  Heap heap_;
};

}  // namespace lockstep::transport
