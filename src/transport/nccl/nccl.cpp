// An *exchange* first compares labels and sizes over the host's transport. Then all its messages
// are one NCCL group. NCCL may put a group into the stream only after a while, so the rank polls
// until it has; then it records a moment, and goes on: it does not wait for the device. What was
// put into the stream and is not known to be done is *unfinished*; `finish` polls until nothing is.
#include "transport/nccl.h"

#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <deque>
#include <set>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "transport/engine.h"
#include "transport/nccl/comm.h"
#include "transport/nccl/connect.h"
#include "transport/watched_wait.h"

namespace lockstep::transport {
namespace {

class Nccl final : public Transport, public DeviceSide, public Engine {
 public:
  Nccl(std::shared_ptr<const nccl::Library> library, const nccl::UniqueId& id,
       std::unique_ptr<Transport> host, std::unique_ptr<DeviceQueue> queue,
       const NcclOptions& options)
      : host_(std::move(host)),
        queue_(std::move(queue)),
        options_(options),
        comm_(std::move(library), host_->world_size(), id, host_->rank()) {}

  ~Nccl() override { say_goodbye(); }

  void await_connected() {
    abort_if_it_throws([&] {
      await([&] { return comm_.settled(); }, [&] { return everyone(); },
            Deadline::in(options_.connect_seconds), "while connecting NCCL");
    });
  }

  const char* name() const override { return "nccl"; }
  int rank() const override { return host_->rank(); }
  int world_size() const override { return host_->world_size(); }
  const std::vector<Peer>& peers() const override { return host_->peers(); }
  const std::vector<int>& hosts() const override { return host_->hosts(); }
  Memory allocate(size_t bytes) override { return queue_->allocate(bytes); }
  Engine* engine() override { return this; }
  DeviceSide* device() override { return this; }
  Transport& for_host_memory() override { return *host_; }
  std::string device_name() const override { return queue_->device(); }
  Arithmetic& arithmetic() override { return *queue_; }
  std::shared_ptr<Handover> hand_over() override { return queue_->hand_over(); }

  void exchange(const Label& label, std::span<const Outgoing> outgoing,
                std::span<const Incoming> incoming, Deadline deadline) override;
  bool supports(Type type) const override { return nccl::has_type(type); }
  void all_reduce(std::byte* data, int64_t count, Type type, Operation operation,
                  Deadline deadline) override;
  void finish(Deadline deadline) override;

  void abort(const std::string& why, int culprit) noexcept override {
    host_->abort(why, culprit);
    comm_.abort();
  }
  void check_peers() override { host_->check_peers(); }
  void watch_waits(const WaitWatch& watch) override {
    watch_ = watch;
    host_->watch_waits(watch);
  }
  void tell_whereabouts(const Whereabouts& mine) override { host_->tell_whereabouts(mine); }
  std::optional<Whereabouts> whereabouts_of(int peer) override {
    return host_->whereabouts_of(peer);
  }
  std::unique_ptr<Transport> connect_again(Rendezvous& rendezvous) const override {
    return connect_nccl(rendezvous, host_->connect_again(rendezvous), queue_->another(), options_);
  }

 private:
  // A thread that polls first spins; then it looks again after a pause, and at its peers more
  // seldom.
  static constexpr double kSpinSeconds = 100e-6;
  static constexpr std::chrono::microseconds kPause{20};
  static constexpr double kCheckSeconds = 0.01;
  // How long a rank whose NCCL reports that a peer failed waits for the host's transport to name
  // it.
  static constexpr double kReasonSeconds = 1;
  // How long a rank that has failed waits for its stream, which NCCL has left.
  static constexpr double kDrainSeconds = 1;
  // How long a rank that closes its transport waits for the others to do so.
  static constexpr double kFarewellSeconds = 2;

  struct Unfinished {
    std::shared_ptr<QueuePoint> end;
    std::set<int> peers;  ///< whose part it needs
  };

  template <typename Action>
  void abort_if_it_throws(const Action& action);
  template <typename Ready, typename Late>
  void await(const Ready& ready, const Late& late, Deadline deadline, const char* what);
  void await_in_stream(const std::set<int>& peers, Deadline deadline);
  void compare_sizes(const Label& label, std::span<const Outgoing> outgoing,
                     std::span<const Incoming> incoming, Deadline deadline);
  bool all_finished();
  std::set<int> unfinished_peers() const;
  std::set<int> everyone() const;
  void drain() noexcept;
  void say_goodbye() noexcept;
  std::vector<int> job_ranks(const std::set<int>& of) const;
  [[noreturn]] void time_out(const std::set<int>& late, const char* what) const;
  [[noreturn]] void raise(const nccl::NcclError& error);
  const Peer& peer(int rank) const { return peers()[static_cast<size_t>(rank)]; }

  const std::unique_ptr<Transport> host_;
  const std::unique_ptr<DeviceQueue> queue_;
  const NcclOptions options_;
  WaitWatch watch_;
  std::deque<Unfinished> unfinished_;
  nccl::NcclComm comm_;  // last: it uses the stream
};

template <typename Action>
void Nccl::abort_if_it_throws(const Action& action) {
  try {
    try {
      action();
    } catch (const nccl::NcclError& error) {
      raise(error);
    }
  } catch (...) {
    comm_.abort();
    drain();
    throw;
  }
}

// What is in the stream uses memory that the caller may free when it has caught the error.
void Nccl::drain() noexcept {
  try {
    const Deadline deadline = Deadline::in(kDrainSeconds);
    const std::shared_ptr<QueuePoint> end = queue_->record();
    while (!end->passed() && !deadline.passed()) std::this_thread::sleep_for(kPause);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the first error counts
  }
}

// NCCL says that a peer failed, but not which: that, the host's transport finds out.
void Nccl::raise(const nccl::NcclError& error) {
  if (error.may_be_a_peers()) {
    const Deadline reason = Deadline::in(kReasonSeconds);
    while (!reason.passed()) {
      host_->check_peers();
      std::this_thread::sleep_for(kPause);
    }
  }
  throw Error(fmt::format("{}: {}", peer(rank()).text(), error.what()));
}

template <typename Ready, typename Late>
void Nccl::await(const Ready& ready, const Late& late, Deadline deadline, const char* what) {
  const Stopwatch since;
  Stopwatch checked;
  WatchedWait watched(watch_);
  while (!ready()) {
    if (deadline.passed()) time_out(late(), what);
    if (since.seconds() < kSpinSeconds) {
      sched_yield();
      continue;
    }
    if (checked.seconds() > kCheckSeconds) {
      host_->check_peers();
      checked.restart();
    }
    watched.look([&] { return job_ranks(late()); });
    std::this_thread::sleep_for(kPause);
  }
}

// Until NCCL has put what it was asked for into the stream.
void Nccl::await_in_stream(const std::set<int>& peers, Deadline deadline) {
  await([&] { return comm_.settled(); }, [&] { return peers; }, deadline,
        "while NCCL put its work into the stream");
  all_finished();
  unfinished_.push_back({queue_->record(), peers});
}

void Nccl::compare_sizes(const Label& label, std::span<const Outgoing> outgoing,
                         std::span<const Incoming> incoming, Deadline deadline) {
  std::vector<uint64_t> mine;
  std::vector<uint64_t> theirs(incoming.size());
  std::vector<Outgoing> tell;
  std::vector<Incoming> hear;
  for (const Outgoing& message : outgoing) mine.push_back(message.bytes);
  for (size_t i = 0; i < outgoing.size(); ++i)
    tell.push_back(
        {outgoing[i].peer, reinterpret_cast<const std::byte*>(&mine[i]), sizeof mine[i]});
  for (size_t i = 0; i < incoming.size(); ++i)
    hear.push_back({incoming[i].peer, reinterpret_cast<std::byte*>(&theirs[i]), sizeof theirs[i]});
  host_->exchange(label, tell, hear, deadline);
  for (size_t i = 0; i < incoming.size(); ++i) {
    if (theirs[i] == incoming[i].bytes) continue;
    // A rank that has given up because another is lost frees what it was sending.
    host_->check_peers();
    throw Disagreement(
        incoming[i].peer, label, theirs[i],
        fmt::format("{} sends {} bytes, but {} expects {}", peer(incoming[i].peer).text(),
                    theirs[i], peer(rank()).text(), incoming[i].bytes));
  }
}

void Nccl::exchange(const Label& label, std::span<const Outgoing> outgoing,
                    std::span<const Incoming> incoming, Deadline deadline) {
  if (std::any_of(incoming.begin(), incoming.end(),
                  [](const Incoming& message) { return message.combine != nullptr; }))
    throw Error("transport nccl only moves bytes: what arrives is combined afterwards");
  if (outgoing.empty() && incoming.empty()) return;
  abort_if_it_throws([&] {
    compare_sizes(label, outgoing, incoming, deadline);
    comm_.exchange(outgoing, incoming, queue_->stream());
    std::set<int> partners;
    for (const Outgoing& message : outgoing) partners.insert(message.peer);
    for (const Incoming& message : incoming) partners.insert(message.peer);
    await_in_stream(partners, deadline);
  });
}

void Nccl::all_reduce(std::byte* data, int64_t count, Type type, Operation operation,
                      Deadline deadline) {
  abort_if_it_throws([&] {
    comm_.all_reduce(data, count, type, operation, queue_->stream());
    await_in_stream(everyone(), deadline);
  });
}

void Nccl::finish(Deadline deadline) {
  abort_if_it_throws([&] {
    unfinished_.push_back({queue_->record(), {}});
    await([&] { return comm_.settled() && all_finished(); }, [&] { return unfinished_peers(); },
          deadline, "in NCCL");
  });
}

bool Nccl::all_finished() {
  while (!unfinished_.empty() && unfinished_.front().end->passed()) unfinished_.pop_front();
  return unfinished_.empty();
}

// Those that the first unfinished exchange needs: what comes later waits for that in the stream.
std::set<int> Nccl::unfinished_peers() const {
  return unfinished_.empty() ? std::set<int>() : unfinished_.front().peers;
}

std::set<int> Nccl::everyone() const {
  std::set<int> all;
  for (int other = 0; other < world_size(); ++other)
    if (other != rank()) all.insert(other);
  return all;
}

std::vector<int> Nccl::job_ranks(const std::set<int>& of) const {
  std::vector<int> ranks;
  for (const int other : of) ranks.push_back(peer(other).rank);
  return ranks;
}

void Nccl::time_out(const std::set<int>& late, const char* what) const {
  std::vector<std::string> names;
  for (const int other : late) names.push_back(peer(other).text());
  if (names.empty()) names.push_back("its own device " + queue_->device());
  throw Timeout(job_ranks(late), fmt::format("rank {} timed out waiting for {} {}",
                                             peer(rank()).rank, fmt::join(names, ", "), what));
}

// NCCL frees memory that others may read until they have finished, too. A rank that they do not
// follow in time, or that failed, aborts its communicator instead.
void Nccl::say_goodbye() noexcept {
  try {
    if (!unfinished_.empty()) return;
    const Deadline deadline = Deadline::in(kFarewellSeconds);
    watch_ = {};
    comm_.finalize();
    await([&] { return comm_.settled(); }, [&] { return everyone(); }, deadline,
          "while closing NCCL");
    comm_.close();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): then it aborts
  }
}

}  // namespace

std::unique_ptr<Transport> connect_nccl(Rendezvous& rendezvous, std::unique_ptr<Transport> host,
                                        std::unique_ptr<DeviceQueue> queue,
                                        const NcclOptions& options) {
  nccl::Meeting meeting = nccl::meet(rendezvous);
  queue->make_current();
  auto transport = std::make_unique<Nccl>(std::move(meeting.library), meeting.id, std::move(host),
                                          std::move(queue), options);
  transport->await_connected();
  return transport;
}

}  // namespace lockstep::transport
