#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "transport/transport.h"

namespace lockstep::transport {

/// Long enough for anything a test waits for.
inline Deadline soon() {
  return Deadline::in(20);
}

/// The rendezvous of threads of one process.
class Room {
 public:
  explicit Room(int world) : world_(world), texts_(static_cast<size_t>(world)) {}

  std::vector<std::string> gather(int rank, const std::string& text) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return leaving_ == 0; });
    texts_[static_cast<size_t>(rank)] = text;
    if (++arrived_ == world_) {
      leaving_ = world_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return leaving_ > 0; });
    const std::vector<std::string> all = texts_;
    if (--leaving_ == 0) {
      arrived_ = 0;
      changed_.notify_all();
    }
    return all;
  }

  int world_size() const { return world_; }

 private:
  const int world_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  int arrived_ = 0;
  int leaving_ = 0;
  std::vector<std::string> texts_;
};

class RoomRendezvous : public Rendezvous {
 public:
  RoomRendezvous(Room& room, int rank) : room_(room), rank_(rank) {}

  int rank() const override { return rank_; }
  int world_size() const override { return room_.world_size(); }
  std::vector<std::string> gather(const std::string& text) override {
    return room_.gather(rank_, text);
  }

 private:
  Room& room_;
  int rank_;
};

/// Runs `rank_main` once per rank, each in a thread, and returns what each threw: nothing, if all
/// went well.
inline std::vector<std::string> errors_of_ranks(int world,
                                                const std::function<void(Rendezvous&)>& rank_main) {
  Room room(world);
  std::vector<std::string> errors(static_cast<size_t>(world));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      RoomRendezvous rendezvous(room, rank);
      try {
        rank_main(rendezvous);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline std::vector<std::string> no_errors(int world) {
  return std::vector<std::string>(static_cast<size_t>(world));
}

}  // namespace lockstep::transport
