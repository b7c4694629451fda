#pragma once

// What a communicator puts into a stream.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "collective/fold/fold.h"
#include "mailboxes.h"
#include "stand_in.h"

namespace lockstep::nccl_stand_in {

/// One ncclSend or ncclRecv.
struct Message {
  enum class Direction { send, receive };

  Direction direction;
  std::byte* data;
  size_t bytes;
  int peer;
  size_t moved = 0;
  uint64_t header = 0;  ///< the size, as the sender has it
  size_t header_moved = 0;

  bool done() const { return header_moved == sizeof header && moved == bytes; }
};

/// What outlives a communicator that was aborted while its work was in a stream.
struct CommState {
  int rank = 0;
  int world = 0;
  int device = 0;
  Shared* shared = nullptr;
  std::atomic<bool> aborted = false;
  std::atomic<int> unfinished = 0;  ///< jobs in streams
  std::atomic<transport::nccl::Result> error = transport::nccl::Result::success;
  std::function<void(const std::string&)> complain;

  ~CommState() {
    if (shared != nullptr) munmap(shared, sizeof(Shared));
  }

  void pause() const { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

  void hang() const {
    while (!aborted) pause();
  }

  bool move(Message& message) {
    Ring& ring = message.direction == Message::Direction::send
                     ? shared->rings[static_cast<size_t>(rank)][static_cast<size_t>(message.peer)]
                     : shared->rings[static_cast<size_t>(message.peer)][static_cast<size_t>(rank)];
    auto* const header = reinterpret_cast<std::byte*>(&message.header) + message.header_moved;
    const size_t of_header = sizeof message.header - message.header_moved;
    size_t now = 0;
    if (message.direction == Message::Direction::send) {
      if (of_header > 0) now = message.header_moved += ring.put(header, of_header);
      if (message.header_moved == sizeof message.header) {
        const size_t put = ring.put(message.data + message.moved, message.bytes - message.moved);
        message.moved += put;
        now += put;
      }
      return now > 0;
    }
    if (of_header > 0) now = message.header_moved += ring.take(header, of_header);
    if (message.header_moved != sizeof message.header) return now > 0;
    if (message.header != message.bytes) {
      complain("rank " + std::to_string(message.peer) + " sends " + std::to_string(message.header) +
               " bytes, rank " + std::to_string(rank) + " receives " +
               std::to_string(message.bytes));
      error = transport::nccl::Result::invalid_usage;
      aborted = true;
      return true;
    }
    const size_t taken = ring.take(message.data + message.moved, message.bytes - message.moved);
    message.moved += taken;
    return now + taken > 0;
  }

  /// Messages between two ranks in one direction keep their order.
  void move_all(std::vector<Message> messages) {
    for (Message& message : messages)
      if (message.direction == Message::Direction::send) message.header = message.bytes;
    while (!aborted) {
      bool all_done = true;
      bool any_moved = false;
      std::array<std::array<bool, kMostRanks>, 2> blocked = {};
      for (Message& message : messages) {
        bool& stop =
            blocked[static_cast<size_t>(message.direction)][static_cast<size_t>(message.peer)];
        if (message.done() || stop) continue;
        any_moved |= move(message);
        stop = !message.done();
        all_done &= message.done();
      }
      if (all_done) return;
      if (!any_moved) pause();
    }
  }

  /// Adds from the last rank to the first: another order than that of the canonical tree.
  void all_reduce(const std::byte* from, std::byte* into, size_t bytes, Type type,
                  Operation operation) {
    std::vector<std::vector<std::byte>> terms(static_cast<size_t>(world));
    std::vector<Message> messages;
    terms[static_cast<size_t>(rank)].assign(from, from + bytes);
    for (int peer = 0; peer < world; ++peer) {
      if (peer == rank) continue;
      terms[static_cast<size_t>(peer)].resize(bytes);
      messages.push_back(
          {Message::Direction::send, terms[static_cast<size_t>(rank)].data(), bytes, peer});
      messages.push_back(
          {Message::Direction::receive, terms[static_cast<size_t>(peer)].data(), bytes, peer});
    }
    move_all(std::move(messages));
    if (aborted) return;
    for (int peer = world - 2; peer >= 0; --peer)
      collective::combiner(type, operation)(terms.back().data(),
                                            terms[static_cast<size_t>(peer)].data(), bytes);
    std::memcpy(into, terms.back().data(), bytes);
  }
};

}  // namespace lockstep::nccl_stand_in
