#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/element.h"
#include "base/thread_annotations.h"
#include "collective/call.h"
#include "collective/cargo.h"
#include "collective/plan/request.h"
#include "collective/program.h"
#include "collective/serial_queue.h"
#include "collective/shared_direct.h"
#include "transport/transport.h"

namespace lockstep::collective {

/// Elements in memory.
struct Buffer {
  std::byte* data = nullptr;
  int64_t count = 0;
  Type type = Type::f32;

  size_t bytes() const { return static_cast<size_t>(count) * bytes_of(type); }
};

struct CommunicatorOptions {
  /// A collective that lasts longer throws Timeout with the ranks that did not arrive.
  double timeout_seconds = 300;
  /// Which all-reduce to use for a bucket of so many bytes: the same answer on every rank. If not
  /// given: `direct` in shared memory; else `butterfly` for short buckets, `halving_doubling` for
  /// long ones.
  std::function<Algorithm(int64_t bytes)> choose;
  /// Who waits longer than `stall_seconds` in a collective tells whom for, and in which; goes on
  /// waiting.
  double stall_seconds = 10;
  std::function<void(const std::string& message)> tell_stall;
};

/// Collectives between the ranks of a group. Every rank calls the same ones in the same order, with
/// equal counts, types and operations; where they differ, they throw Mismatch.
///
/// Everything works in place. Where a collective has a part per rank, slice r of the buffer
/// (base/range.h) is rank r's.
///
/// `all_reduce_async` returns at once; what was started runs in the order started, also with what
/// is called later. After an error a communicator throws that error whatever is asked of it.
class Communicator {
 public:
  explicit Communicator(std::unique_ptr<transport::Transport> transport,
                        CommunicatorOptions options = {});
  ~Communicator();

  int rank() const { return transport_->rank(); }
  int world_size() const { return transport_->world_size(); }
  transport::Transport& transport() { return *transport_; }

  /// Memory that this group's transport handles fastest: put buckets there.
  transport::Memory allocate(size_t bytes) { return transport_->allocate(bytes); }

  /// As `options.choose`, from here on.
  void choose(std::function<Algorithm(int64_t bytes)> choice);

  void all_reduce(Buffer bucket, Operation operation = Operation::sum, Cargo cargo = {});
  Pending all_reduce_async(Buffer bucket, Operation operation = Operation::sum, Cargo cargo = {});

  /// All-reduce of shards: this rank gives a buffer per term, equally long; the first gets the
  /// result, which is that of one rank that has all shards, to the bit. A mean is over shards.
  void all_reduce(std::span<const Buffer> terms, const Shards& shards, Operation operation,
                  Cargo cargo = {});
  /// `owner` of the terms' memory is kept until it has ended.
  Pending all_reduce_async(std::span<const Buffer> terms, const Shards& shards, Operation operation,
                           Cargo cargo = {}, std::shared_ptr<const void> owner = nullptr);

  void broadcast(Buffer buffer, int root, Cargo cargo = {});
  void reduce(Buffer buffer, int root, Operation operation = Operation::sum);
  void all_gather(Buffer buffer);
  void reduce_scatter(Buffer buffer, Operation operation = Operation::sum);
  void gather(Buffer buffer, int root);
  void scatter(Buffer buffer, int root);
  void barrier();
  void send(Buffer buffer, int to);
  void receive(Buffer buffer, int from);

  /// Every rank gives a text and gets everyone's, by rank.
  std::vector<std::string> gather_texts(const std::string& text);

  /// Collective: groups of the ranks with the same `color`, ordered by (`key`, rank).
  std::unique_ptr<Communicator> split(int color, int key);

  /// Bytes that plans made this rank send so far, in this group, those split off from it and the
  /// one it was split off from.
  int64_t bytes_sent(Cargo::Kind kind) const { return (*sent_)[static_cast<size_t>(kind)]; }
  int64_t bytes_sent() const;

  /// Makes everyone's collectives throw PeerLost with this reason, and this rank's an Error with
  /// the first one given. From any thread.
  void abort(const std::string& why) noexcept EXCLUDES(gave_up_mutex_);

  /// Throws Error once this rank has given up: for who computes long between collectives. From any
  /// thread.
  void check() EXCLUDES(gave_up_mutex_);

 private:
  void run(Call call, Buffer buffer, Cargo cargo = {});
  void all_reduce_now(std::span<const Buffer> terms, const Shards& shards, Operation operation,
                      Cargo cargo);
  void check_terms(std::span<const Buffer> terms, const Shards& shards) const;
  void in_shared_memory(const Call& call, std::span<const Buffer> terms, const Shards& shards);
  void by_program(const Call& call, std::span<const Buffer> terms, const Shards& shards);
  void by_engine(const Call& call, std::span<const Buffer> terms);
  Plan plan_for(const Request& request) const;
  const Program& program_for(const Request& request);
  std::vector<std::byte*> lay_out(const Program& program, std::span<const Buffer> terms);

  /// Runs `action`; what it throws is told to all other ranks, and thrown again ever after.
  template <typename Action>
  void guard(const Call& call, Cargo cargo, const Action& action);
  std::string what_is_under_way() const;
  void tell_stall(const std::vector<int>& late) const;
  void count(int64_t bytes) { (*sent_)[static_cast<size_t>(cargo_.kind)] += bytes; }

  const std::unique_ptr<transport::Transport> transport_;
  CommunicatorOptions options_;
  const Shards one_each_;  ///< a shard a rank
  const bool in_two_levels_;
  using BytesByKind = std::array<std::atomic<int64_t>, 3>;
  std::shared_ptr<BytesByKind> sent_ = std::make_shared<BytesByKind>();  ///< with groups split off

  Mutex gave_up_mutex_;
  std::optional<std::string> gave_up_ GUARDED_BY(gave_up_mutex_);  ///< why

  // Used only by the action that runs in queue_.
  uint64_t sequence_ = 0;
  Call call_;  ///< under way
  Cargo cargo_;
  std::vector<uint64_t> letters_;                     ///< exchanged with each rank alone
  std::map<std::vector<int64_t>, Program> programs_;  ///< by request
  std::optional<SharedDirect> shared_direct_;
  std::vector<std::byte*> term_places_;
  std::vector<int64_t> widths_;
  transport::Memory scratch_;
  std::exception_ptr broken_;

  SerialQueue queue_;  // last, so that it is destroyed first
};

}  // namespace lockstep::collective
