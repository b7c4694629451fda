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
#include <utility>
#include <vector>

#include "base/element.h"
#include "base/thread_annotations.h"
#include "collective/call.h"
#include "collective/plan/collectives.h"
#include "collective/program.h"
#include "collective/serial_queue.h"
#include "collective/shared_direct.h"
#include "transport/device.h"
#include "transport/transport.h"

namespace lockstep::collective {

/// Elements in memory.
struct Buffer {
  std::byte* data = nullptr;
  int64_t count = 0;
  Type type = Type::f32;
  transport::Place place = transport::Place::host;

  size_t bytes() const { return static_cast<size_t>(count) * bytes_of(type); }
};

struct CommunicatorOptions {
  /// A collective that takes longer throws Timeout with the ranks that did not arrive.
  double timeout_seconds = 300;
  /// Which all-reduce algorithm to use for a bucket of this size: the same one on every rank.
  /// If not given: `usual_algorithm`.
  std::function<Algorithm(int64_t bytes)> choose;
  /// A rank that waits longer than `stall_seconds` in a collective reports which ranks it waits
  /// for, and in which collective; then it continues to wait.
  double stall_seconds = 10;
  std::function<void(const std::string& message)> tell_stall;
  /// A rank that waits longer tells the others which collective it is in, so that ranks that wait
  /// for each other in different ones throw Mismatch.
  double compare_seconds = 1;
};

/// In bytes: above this, the number of bytes sent counts most.
constexpr int64_t kSmallBytes = int64_t{64} * 1024;

/// What a communicator over `transport` uses unless it is told otherwise: `direct` in shared
/// memory; elsewhere `butterfly` for small buckets (few rounds) and `halving_doubling` for large
/// ones (few bytes).
Algorithm usual_algorithm(int64_t bytes, transport::Transport& transport);
std::function<Algorithm(int64_t bytes)> usual_choice(transport::Transport& transport);

/// Collectives between the ranks of a group. Every rank calls the same ones in the same order, with
/// equal counts, types and operations; where they differ, they throw Mismatch.
///
/// All collectives work in place. Where a collective has a part per rank, slice r of the buffer
/// (base/range.h) belongs to rank r.
///
/// Functions that end in `_async`, and `start`, return at once. All collectives run in the order in
/// which they were called, started or not. After an error, every call throws that same error.
///
/// Buffers in a device's memory need a transport that carries it. The stream of the thread that
/// calls a collective hands them over to the transport's stream, without a wait of the host.
/// `Pending::wait` then returns when the collective's work has been put into that stream, and lets
/// the stream of the thread that waits wait for it; what the device fails in later is thrown by the
/// next call. A collective that is not started but called returns when the device has done it.
class Communicator {
 public:
  explicit Communicator(std::unique_ptr<transport::Transport> transport,
                        CommunicatorOptions options = {});
  ~Communicator();

  int rank() const { return transport_->rank(); }
  int world_size() const { return transport_->world_size(); }
  transport::Transport& transport() { return *transport_; }

  /// Memory that this group's transport sends from and receives into fastest: put buckets there.
  transport::Memory allocate(size_t bytes, transport::Place place = transport::Place::host) {
    return carrier(place).allocate(bytes);
  }

  /// Replaces `options.choose`.
  void choose(std::function<Algorithm(int64_t bytes)> choice);

  /// The algorithm of an all-reduce of this many bytes.
  Algorithm algorithm_for(int64_t bytes);

  void all_reduce(Buffer bucket, Operation operation = Operation::sum, Cargo cargo = {});
  Pending all_reduce_async(Buffer bucket, Operation operation = Operation::sum, Cargo cargo = {});

  /// All-reduce of shards: this rank gives one buffer per term, all equally long; the first
  /// receives the result, which has the same bits as on one rank that owns all shards. A mean is
  /// over shards.
  void all_reduce(std::span<const Buffer> terms, const Shards& shards, Operation operation,
                  Cargo cargo = {});
  /// `owner` keeps the terms' memory alive until the all-reduce has ended, on the device, too.
  /// `prepare` is called when it begins, to wait until the terms are there; what it throws ends the
  /// all-reduce.
  Pending all_reduce_async(std::span<const Buffer> terms, const Shards& shards, Operation operation,
                           Cargo cargo = {}, std::shared_ptr<const void> owner = nullptr,
                           std::function<void()> prepare = nullptr);

  /// Reduce-scatter of shards: like `all_reduce` of the same terms, but only slice r of rank r's
  /// first term receives its result; the rest of the terms is unspecified. It sends half as much.
  /// An all-gather afterwards makes it an all-reduce, with the same bits.
  void reduce_scatter(std::span<const Buffer> terms, const Shards& shards, Operation operation,
                      Cargo cargo = {});
  Pending reduce_scatter_async(std::span<const Buffer> terms, const Shards& shards,
                               Operation operation, Cargo cargo = {},
                               std::shared_ptr<const void> owner = nullptr,
                               std::function<void()> prepare = nullptr);

  void broadcast(Buffer buffer, int root, Cargo cargo = {});
  void reduce(Buffer buffer, int root, Operation operation = Operation::sum);
  void all_gather(Buffer buffer, Cargo cargo = {});
  /// `owner` and `prepare` as for `all_reduce_async`.
  Pending all_gather_async(Buffer buffer, Cargo cargo = {},
                           std::shared_ptr<const void> owner = nullptr,
                           std::function<void()> prepare = nullptr);
  void reduce_scatter(Buffer buffer, Operation operation = Operation::sum);
  void gather(Buffer buffer, int root);
  void scatter(Buffer buffer, int root);
  void barrier();
  void send(Buffer buffer, int to);
  void receive(Buffer buffer, int from);
  /// Slice r of `from` is sent to rank r, and slice r of `into` becomes what rank r has sent here.
  /// Both have equally many elements, a multiple of the world size.
  void all_to_all(Buffer from, Buffer into);
  /// Sends and receives at the same time. The partners must call `exchange`, too.
  void exchange(Buffer outgoing, int to, Buffer incoming, int from);

  /// Any of these. `call` has the collective, its root, peer and operation, if any; its other
  /// members are ignored. `buffers` is one buffer, or two for all_to_all and exchange.
  void run(const Call& call, std::span<const Buffer> buffers, Cargo cargo = {});
  /// The same, returns at once. `owner` keeps the buffers' memory alive until it has ended;
  /// `prepare` is called when the collective begins, as in `all_reduce_async`.
  Pending start(const Call& call, std::span<const Buffer> buffers,
                std::shared_ptr<const void> owner, Cargo cargo = {},
                std::function<void()> prepare = nullptr, Runner runner = Runner::own_thread);

  /// Collective: every rank gives a text and gets the texts of all, by rank.
  std::vector<std::string> gather_texts(const std::string& text);

  /// Collective: a communicator of the ranks with the same `color`, ordered by (`key`, rank).
  /// nullptr for ranks with a negative color.
  std::unique_ptr<Communicator> split(int color, int key);

  /// Bytes that this rank's collectives have sent so far, in this group, in those split off from it
  /// and in the one that it was split off from. Where ranks see each other's memory, what others
  /// read of this rank's and what it writes to others' counts as sent.
  int64_t bytes_sent(Cargo::Kind kind) const { return (*sent_)[static_cast<size_t>(kind)]; }
  int64_t bytes_sent() const;
  /// From now on, calls without a cargo of their own transfer this.
  void set_cargo(Cargo::Kind kind);

  /// Makes the collectives of all other ranks throw PeerLost with this reason, and this rank's an
  /// Error with the first reason given. From any thread.
  void abort(const std::string& why) noexcept EXCLUDES(gave_up_mutex_);

  /// Throws Error once this rank has called `abort`. Call it in long computations between
  /// collectives. From any thread.
  void check() EXCLUDES(gave_up_mutex_);

 private:
  using ProgramKey = std::pair<Algorithm, std::vector<int64_t>>;

  /// The transport for buffers in this memory. Throws BadInput if there is none.
  transport::Transport& carrier(transport::Place place);
  transport::Arithmetic& arithmetic(transport::Place place);
  /// nullptr for buffers in host memory, as everywhere below.
  std::shared_ptr<transport::Handover> hand_over(std::span<const Buffer> buffers);

  /// Call `action(handover)` in the queue, and wait for the device in the queue, too.
  template <typename Action>
  void run_in_queue(std::span<const Buffer> buffers, const Action& action);
  /// `owner` is kept until the device has done it.
  template <typename Action>
  Pending start_in_queue(std::span<const Buffer> buffers, std::shared_ptr<const void> owner,
                         Action action, Runner runner = Runner::own_thread);
  void finish_now();

  void run_now(Call call, std::span<const Buffer> buffers, Cargo cargo,
               transport::Handover* handover, const std::function<void()>& prepare = nullptr);
  void exchange_now(const Call& call, const Buffer& outgoing, const Buffer& incoming);
  /// all_reduce or reduce_scatter.
  void reduce_now(Collective collective, std::span<const Buffer> terms, const Shards& shards,
                  Operation operation, Cargo cargo, transport::Handover* handover,
                  const std::function<void()>& prepare = nullptr);
  Pending start_reduction(Collective collective, std::span<const Buffer> terms,
                          const Shards& shards, Operation operation, Cargo cargo,
                          std::shared_ptr<const void> owner, std::function<void()> prepare);
  void check_terms(Collective collective, std::span<const Buffer> terms,
                   const Shards& shards) const;
  void in_shared_memory(const Call& call, std::span<const Buffer> terms, const Shards& shards);
  void in_pieces(const Call& call, std::span<const Buffer> terms, const Shards& shards);
  void by_program(const Call& call, std::span<const Buffer> terms, const Shards& shards);
  void by_engine(const Call& call, std::span<const Buffer> terms);
  Plan plan_for(const Request& request) const;
  const Program& program_for(const Request& request, transport::Place place);
  std::vector<std::byte*> lay_out(const Program& program, std::span<const Buffer> terms);

  /// Runs `action`. If it throws, tells all other ranks, and makes every later call throw the same.
  template <typename Action>
  void guard(const Call& call, Cargo cargo, transport::Handover* handover, const Action& action);
  std::string what_is_running() const;
  void look_at(const transport::LongWait& wait);
  void compare_whereabouts(const std::vector<int>& late);
  std::optional<Call> contradicted_by(const transport::Whereabouts& theirs, int peer,
                                      const std::vector<int>& late) const;
  [[noreturn]] void disagree(const std::string& mine, int peer,
                             const transport::Label& theirs) const;
  void count(int64_t bytes) { (*sent_)[static_cast<size_t>(cargo_.kind)] += bytes; }

  const std::unique_ptr<transport::Transport> transport_;
  CommunicatorOptions options_;  ///< `choose` is used and replaced only in queue_
  const Shards one_each_;        ///< one shard a rank
  const bool in_two_levels_;
  const Runner awaited_by_;  ///< who runs what every rank waits for soon after it was started
  using BytesByKind = std::array<std::atomic<int64_t>, Cargo::kKinds>;
  std::shared_ptr<BytesByKind> sent_ = std::make_shared<BytesByKind>();  ///< with groups split off

  std::atomic<int> running_ = 0;  ///< collectives that were called and have not ended

  Mutex gave_up_mutex_;
  std::optional<std::string> gave_up_ GUARDED_BY(gave_up_mutex_);  ///< why

  // Used only by the action that runs in queue_.
  uint64_t sequence_ = 0;
  Call call_;  ///< that is running
  Cargo cargo_;
  Cargo usual_cargo_;                       ///< of calls that name none
  std::array<Call, 16> calls_;              ///< the latest collectives, by number modulo 16
  std::vector<Call> messages_;              ///< the latest send_receive with each rank
  std::map<ProgramKey, Program> programs_;  ///< by request
  std::optional<SharedDirect> shared_direct_;
  std::vector<std::byte*> term_places_;
  std::vector<int64_t> widths_;
  std::array<transport::Memory, 2> scratch_;  ///< by place
  std::exception_ptr broken_;

  SerialQueue queue_;  // last, so that it is destroyed first
};

}  // namespace lockstep::collective
