#pragma once

#include <array>
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
/// Where a rank writes small data for all to read; each rank has two, used alternately.
inline constexpr size_t kMailboxBytes = size_t{64} * 1024;
/// The most messages from one rank to another that may wait at a time.
inline constexpr uint64_t kQueueLength = 16;

/// Wakes a rank. The rank sets `sleeping` before it sleeps, so that others make a system call only
/// then.
struct alignas(kCacheLine) Bell {
  std::atomic<uint32_t> rings;
  std::atomic<uint32_t> sleeping;
};

/// Heartbeats of a rank.
struct alignas(kCacheLine) Pulse {
  std::atomic<uint64_t> beats;
  std::atomic<uint32_t> left;  ///< it has closed the transport
};

/// A rank's entry into a collective. It is complete once `sequence` has the collective's number.
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

/// Messages from one rank to another: the sender increments `posted`, the receiver `taken`.
struct Queue {
  alignas(kCacheLine) std::atomic<uint64_t> posted;
  alignas(kCacheLine) std::atomic<uint64_t> taken;
  alignas(kCacheLine) Parcel parcels[kQueueLength];
};

/// Where a rank was when it last waited long. Its version is odd while it is written.
struct alignas(kCacheLine) WhereaboutsNote {
  std::atomic<uint64_t> version;
  std::array<std::atomic<uint64_t>, 6> words;  ///< of the label; the number of collectives
};

/// The reason of the first rank that aborted or lost another.
struct alignas(kCacheLine) LastWords {
  std::atomic<uint32_t> state;  ///< 0: none, 1: being written, 2: written
  int32_t rank;
  char text[1024];
};

/// Memory that the ranks of one host share: a control block and a heap per rank. Rank 0 makes an
/// anonymous file, which the others open through /proc, so that nothing is left behind when ranks
/// end, in whatever way.
class SharedSegment {
 public:
  /// Collective. Throws BadInput if not all ranks are on one `host` ("": use host_identity()).
  static std::shared_ptr<SharedSegment> open(Rendezvous& rendezvous, const std::string& host = "");

  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_; }
  const std::vector<Peer>& peers() const { return peers_; }
  const Peer& peer(int rank) const { return peers_[static_cast<size_t>(rank)]; }
  /// Whether there are fewer processors than ranks.
  bool crowded() const { return crowded_; }

  Bell& bell(int rank) const { return at<Bell>(bells_)[rank]; }
  Pulse& pulse(int rank) const { return at<Pulse>(pulses_)[rank]; }
  Notice& notice(int rank, uint64_t sequence) const {
    return at<Notice>(notices_)[2 * rank + static_cast<int>(sequence % 2)];
  }
  Finish& finish(int rank) const { return at<Finish>(finishes_)[rank]; }
  Queue& queue(int from, int to) const { return at<Queue>(queues_)[from * world_ + to]; }
  WhereaboutsNote& whereabouts(int rank) const { return at<WhereaboutsNote>(whereabouts_)[rank]; }
  LastWords& last_words() const { return *at<LastWords>(last_words_); }
  std::byte* mailbox(int rank, uint64_t sequence) const {
    return base_ + mailboxes_ +
           kMailboxBytes * (2 * static_cast<size_t>(rank) + static_cast<size_t>(sequence % 2));
  }

  std::byte* address(int rank, uint64_t offset) const {
    return base_ + heaps_ + heap_.bytes() * static_cast<size_t>(rank) + offset;
  }
  /// The offset of `data` in this rank's heap; nothing if it is elsewhere.
  std::optional<uint64_t> offset_of(const void* data) const;

  /// Zeroed memory from this rank's heap; it keeps the segment alive.
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
  size_t bells_ = 0, pulses_ = 0, notices_ = 0, finishes_ = 0, queues_ = 0, last_words_ = 0,
         whereabouts_ = 0;
  size_t mailboxes_ = 0, heaps_ = 0, bytes_ = 0;
  std::byte* base_ = nullptr;
  int file_ = -1;

  Heap heap_;
};

}  // namespace lockstep::transport
