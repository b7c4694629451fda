#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/thread_annotations.h"
#include "net/socket.h"
#include "transport/tcp/wire.h"
#include "transport/transport.h"

namespace lockstep::transport {

/// Detects lost peers. A thread sends heartbeats over the control connections and receives those of
/// the peers. A peer is lost when its connection closes without a goodbye, when its heartbeat times
/// out, or when it says that it aborts; all ranks report the first loss.
class Heart {
 public:
  Heart(int rank, const std::vector<Peer>& peers, std::vector<net::Descriptor> controls,
        double silence_seconds);
  /// Says goodbye, so that a rank that finishes first does not count as lost.
  ~Heart();
  Heart(const Heart&) = delete;
  Heart& operator=(const Heart&) = delete;

  /// Becomes readable at the first loss.
  int alarm() const { return alarm_.get(); }
  bool troubled() const { return troubled_.load(std::memory_order_acquire); }
  /// Throws PeerLost with the first loss.
  [[noreturn]] void raise_loss() EXCLUDES(mutex_);

  /// Throws PeerLost when this peer has said goodbye.
  void check_present(int rank) EXCLUDES(mutex_);

  /// A data connection with `rank` broke: waits briefly for the reason on the control connections,
  /// and throws PeerLost with it.
  [[noreturn]] void raise_broken(int rank) EXCLUDES(mutex_);

  void tell_whereabouts(const Whereabouts& mine) EXCLUDES(sending_);
  std::optional<Whereabouts> whereabouts_of(int rank) EXCLUDES(mutex_);

  /// Tells all others that this rank aborts because of `culprit`, a rank of the job.
  void give_up(const std::string& why, int culprit) EXCLUDES(mutex_, sending_);

 private:
  struct PeerLine {
    int peer;
    net::Descriptor socket;
    std::string arrived = {};
    double silent = 0;
    bool heard = false;  ///< in the current iteration
    bool open = true;
  };
  struct Notice {
    int culprit;
    std::string text;
  };

  void run() EXCLUDES(mutex_, sending_);
  void listen_once(double seconds) EXCLUDES(mutex_);
  void hear(PeerLine& line, std::vector<Notice>& notices) EXCLUDES(mutex_);
  void parse(PeerLine& line, std::vector<Notice>& notices) EXCLUDES(mutex_);
  void count_silence(double seconds) EXCLUDES(mutex_);
  void send_to_all(const std::string& text) EXCLUDES(sending_);
  void lose(int rank, const std::string& how) EXCLUDES(mutex_);
  void record(int rank, const std::string& message) EXCLUDES(mutex_);
  const Peer& peer(int rank) const { return peers_[static_cast<size_t>(rank)]; }
  std::string finished(int rank) const;

  // Constant after construction.
  const int rank_;
  const std::vector<Peer> peers_;
  const double silence_seconds_;
  const double beat_seconds_;
  net::Descriptor alarm_;
  net::Descriptor stop_;

  // Used by the thread only, except for the sockets.
  std::vector<PeerLine> lines_;

  std::atomic<bool> troubled_ = false;

  // Guards sending over the sockets, so that frames of several threads do not mix.
  Mutex sending_;

  Mutex mutex_;
  Condition changed_;  ///< `loss_` or `left_` was
  std::optional<PeerLost> loss_ GUARDED_BY(mutex_);
  int culprit_ GUARDED_BY(mutex_) = 0;  ///< of the loss, by its rank in this group
  std::vector<bool> left_ GUARDED_BY(mutex_);
  std::vector<std::optional<Whereabouts>> whereabouts_ GUARDED_BY(mutex_);  ///< by rank
  bool gave_up_ GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::transport
