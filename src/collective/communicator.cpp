#include "collective/communicator.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <numeric>
#include <utility>

#include "transport/device.h"

namespace lockstep::collective {
namespace {

// Whether there are several hosts, at least one of them with several ranks, in the order of ranks.
bool are_two_levels(std::vector<int> hosts) {
  const bool in_order = std::is_sorted(hosts.begin(), hosts.end());
  const size_t ranks = hosts.size();
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  return in_order && hosts.size() > 1 && hosts.size() < ranks;
}

// The cores of this machine that each of so many ranks has for itself: they share the machine, or
// each is bound to its own.
int cores_of_each(int ranks) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int usable = CPU_COUNT(&set);
  const auto all = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return usable * ranks <= all ? usable : usable / ranks;
}

// In shared memory, ranks move the bytes themselves: with one core each, a second thread would take
// it from the computation that it is to overlap with.
Runner runner_for(transport::Transport& transport) {
  const std::vector<int> hosts = transport.hosts();
  const auto here =
      static_cast<int>(std::ranges::count(hosts, hosts[static_cast<size_t>(transport.rank())]));
  const bool is_shared = transport.for_host_memory().shared_board() != nullptr;
  return is_shared && cores_of_each(here) <= 1 ? Runner::waiter : Runner::own_thread;
}

// A collective that has begun, or will begin.
struct Counted {
  explicit Counted(std::atomic<int>& count) : running(count) {}
  ~Counted() { --running; }
  std::atomic<int>& running;
};

}  // namespace

Communicator::Communicator(std::unique_ptr<transport::Transport> transport,
                           CommunicatorOptions options)
    : transport_(std::move(transport)),
      options_(std::move(options)),
      one_each_(Shards::even(transport_->world_size(), transport_->world_size())),
      in_two_levels_(are_two_levels(transport_->hosts())),
      awaited_by_(runner_for(*transport_)),
      messages_(static_cast<size_t>(transport_->world_size())) {
  transport::SharedBoard* const board = transport_->for_host_memory().shared_board();
  if (board != nullptr && world_size() > 1) shared_direct_.emplace(*board);
  if (!options_.choose) options_.choose = usual_choice(*transport_);
  if (!options_.tell_stall) options_.stall_seconds = 0;
  const double stall = options_.stall_seconds;
  const double compare = options_.compare_seconds;
  transport_->watch_waits({stall > 0 ? std::min(stall, compare) : compare,
                           [this](const transport::LongWait& wait) { look_at(wait); }});
}

Communicator::~Communicator() {
  if (running_ > 0)
    transport_->abort("its communicator was closed while collectives were running");
  else
    queue_.run([] {});  // after the device has done what was started
}

void Communicator::choose(std::function<Algorithm(int64_t)> choice) {
  queue_.run([&] { options_.choose = std::move(choice); });
}

Algorithm Communicator::algorithm_for(int64_t bytes) {
  std::optional<Algorithm> chosen;
  queue_.run([&] { chosen = options_.choose(bytes); });
  return *chosen;
}

int64_t Communicator::bytes_sent() const {
  return std::accumulate(sent_->begin(), sent_->end(), int64_t{0});
}

void Communicator::set_cargo(Cargo::Kind kind) {
  queue_.run([&] { usual_cargo_ = {kind}; });
}

std::string Communicator::what_is_running() const {
  const std::string cargo = cargo_.text();
  const std::string call = describe(label_of(call_));
  return cargo.empty() ? call : fmt::format("{} ({})", cargo, call);
}

void Communicator::abort(const std::string& why) noexcept {
  {
    const MutexLock lock(gave_up_mutex_);
    try {
      if (!gave_up_) gave_up_ = why;
    } catch (const std::bad_alloc&) {
      gave_up_.emplace();
    }
  }
  transport_->abort(why);
}

void Communicator::check() {
  const MutexLock lock(gave_up_mutex_);
  if (gave_up_) throw Error(fmt::format("rank {} aborted earlier: {}", rank(), *gave_up_));
}

template <typename Action>
void Communicator::guard(const Call& call, Cargo cargo, transport::Handover* handover,
                         const Action& action) {
  if (broken_) std::rethrow_exception(broken_);
  check();
  call_ = call;
  cargo_ = cargo.kind == Cargo::Kind::other ? usual_cargo_ : cargo;
  const bool is_numbered =
      call.collective != Collective::send_receive && call.collective != Collective::exchange;
  if (is_numbered) calls_[call.number % calls_.size()] = call;
  try {
    try {
      if (handover != nullptr) handover->take();
      action();
      if (handover != nullptr) handover->give_back();
    } catch (const transport::Disagreement& found) {
      disagree(what_is_running(), found.peer, found.theirs);
    } catch (const Timeout& timeout) {
      throw Timeout(timeout.ranks(), fmt::format("{}, in {}", timeout.what(), what_is_running()));
    }
  } catch (const PeerLost& error) {
    broken_ = std::current_exception();
    transport_->abort(error.what(), error.rank());
    throw;
  } catch (const std::exception& error) {
    broken_ = std::current_exception();
    transport_->abort(error.what());
    throw;
  }
}

template <typename Action>
void Communicator::run_in_queue(std::span<const Buffer> buffers, const Action& action) {
  const std::shared_ptr<transport::Handover> handover = hand_over(buffers);
  ++running_;
  const Counted counted{running_};
  queue_.run([&] {
    action(handover.get());
    if (handover != nullptr) finish_now();
  });
}

template <typename Action>
Pending Communicator::start_in_queue(std::span<const Buffer> buffers,
                                     std::shared_ptr<const void> owner, Action action,
                                     Runner runner) {
  const std::shared_ptr<transport::Handover> handover = hand_over(buffers);
  ++running_;
  const Pending pending = queue_.start(
      [this, handover, owner, moved = std::move(action)] {
        const Counted counted{running_};
        moved(handover.get());
      },
      handover, handover == nullptr ? runner : Runner::own_thread);
  if (handover != nullptr) queue_.start([this, owner] { finish_now(); });
  return pending;
}

void Communicator::finish_now() {
  guard(call_, cargo_, nullptr,
        [&] { transport_->device()->finish(Deadline::in(options_.timeout_seconds)); });
}

void Communicator::all_reduce(Buffer bucket, Operation operation, Cargo cargo) {
  require_reducible(bucket.type, operation);
  run_in_queue({&bucket, 1}, [&](transport::Handover* handover) {
    reduce_now(Collective::all_reduce, {&bucket, 1}, one_each_, operation, cargo, handover);
  });
}

Pending Communicator::all_reduce_async(Buffer bucket, Operation operation, Cargo cargo) {
  return start_in_queue({&bucket, 1}, nullptr, [=, this](transport::Handover* handover) {
    reduce_now(Collective::all_reduce, {&bucket, 1}, one_each_, operation, cargo, handover);
  });
}

void Communicator::all_reduce(std::span<const Buffer> terms, const Shards& shards,
                              Operation operation, Cargo cargo) {
  run_in_queue(terms, [&](transport::Handover* handover) {
    reduce_now(Collective::all_reduce, terms, shards, operation, cargo, handover);
  });
}

Pending Communicator::all_reduce_async(std::span<const Buffer> terms, const Shards& shards,
                                       Operation operation, Cargo cargo,
                                       std::shared_ptr<const void> owner,
                                       std::function<void()> prepare) {
  return start_reduction(Collective::all_reduce, terms, shards, operation, cargo, std::move(owner),
                         std::move(prepare));
}

void Communicator::reduce_scatter(std::span<const Buffer> terms, const Shards& shards,
                                  Operation operation, Cargo cargo) {
  run_in_queue(terms, [&](transport::Handover* handover) {
    reduce_now(Collective::reduce_scatter, terms, shards, operation, cargo, handover);
  });
}

Pending Communicator::reduce_scatter_async(std::span<const Buffer> terms, const Shards& shards,
                                           Operation operation, Cargo cargo,
                                           std::shared_ptr<const void> owner,
                                           std::function<void()> prepare) {
  return start_reduction(Collective::reduce_scatter, terms, shards, operation, cargo,
                         std::move(owner), std::move(prepare));
}

Pending Communicator::start_reduction(Collective collective, std::span<const Buffer> terms,
                                      const Shards& shards, Operation operation, Cargo cargo,
                                      std::shared_ptr<const void> owner,
                                      std::function<void()> prepare) {
  return start_in_queue(
      terms, std::move(owner),
      [this, collective, kept = std::vector<Buffer>(terms.begin(), terms.end()), shards, operation,
       cargo, prepare = std::move(prepare)](transport::Handover* handover) {
        reduce_now(collective, kept, shards, operation, cargo, handover, prepare);
      },
      awaited_by_);
}

void Communicator::reduce_now(Collective collective, std::span<const Buffer> terms,
                              const Shards& shards, Operation operation, Cargo cargo,
                              transport::Handover* handover, const std::function<void()>& prepare) {
  const Buffer bucket = terms.empty() ? Buffer{} : terms.front();
  const bool whole = collective == Collective::all_reduce;
  Call call{.number = ++sequence_,
            .collective = collective,
            .operation = operation,
            .type = bucket.type,
            .place = bucket.place,
            .count = bucket.count,
            .shards = shards.count()};
  if (whole) call.algorithm = options_.choose(static_cast<int64_t>(bucket.bytes()));
  guard(call, cargo, handover, [&] {
    check_terms(collective, terms, shards);
    if (prepare) prepare();
    const bool on_host = bucket.place == transport::Place::host;
    const bool without_messages = !whole || call.algorithm->in_shared_memory;
    if (without_messages && shared_direct_ && on_host)
      in_shared_memory(call, terms, shards);
    else if (whole && call.algorithm.is_engine())
      by_engine(call, terms);
    else
      in_pieces(call, terms, shards);
  });
}

void Communicator::check_terms(Collective collective, std::span<const Buffer> terms,
                               const Shards& shards) const {
  const std::string& name = collective_names()[static_cast<size_t>(collective)];
  if (shards.world_size() != world_size())
    throw BadInput("{}: the {} shards are owned by {} ranks, but the group has {}", name,
                   shards.count(), shards.world_size(), world_size());
  if (terms.size() != shards.terms_of(rank()).size())
    throw BadInput("{}: rank {} gave {} terms, but its shards have {}", name, rank(), terms.size(),
                   shards.terms_of(rank()).size());
  for (const Buffer& term : terms)
    if (term.count != terms[0].count || term.type != terms[0].type || term.count < 0 ||
        term.place != terms[0].place)
      throw BadInput(
          "{}: terms of {} {} and of {} {}: expected equal counts and types in one memory", name,
          terms[0].count, name_of(terms[0].type), term.count, name_of(term.type));
}

void Communicator::run(const Call& call, std::span<const Buffer> buffers, Cargo cargo) {
  if (reduces(call.collective)) require_reducible(buffers[0].type, call.operation);
  run_in_queue(buffers,
               [&](transport::Handover* handover) { run_now(call, buffers, cargo, handover); });
}

Pending Communicator::start(const Call& call, std::span<const Buffer> buffers,
                            std::shared_ptr<const void> owner, Cargo cargo,
                            std::function<void()> prepare, Runner runner) {
  if (reduces(call.collective)) require_reducible(buffers[0].type, call.operation);
  return start_in_queue(
      buffers, std::move(owner),
      [this, call, cargo, prepare = std::move(prepare),
       kept = std::vector<Buffer>(buffers.begin(), buffers.end())](transport::Handover* handover) {
        run_now(call, kept, cargo, handover, prepare);
      },
      runner);
}

// Messages between two ranks are counted by pairs, all other collectives by the group.
void Communicator::run_now(Call call, std::span<const Buffer> buffers, Cargo cargo,
                           transport::Handover* handover, const std::function<void()>& prepare) {
  call.type = buffers[0].type;
  call.place = buffers[0].place;
  call.count = buffers[0].count;
  call.shards = world_size();
  if (call.collective == Collective::all_reduce || call.collective == Collective::reduce_scatter)
    return reduce_now(call.collective, buffers, one_each_, call.operation, cargo, handover,
                      prepare);
  if (call.collective == Collective::exchange)
    return guard(call, cargo, handover, [&] {
      if (prepare) prepare();
      exchange_now(call, buffers[0], buffers[1]);
    });
  if (call.collective == Collective::broadcast)
    call.broadcast_by = static_cast<int64_t>(buffers[0].bytes()) <= kSmallBytes
                            ? BroadcastBy::tree
                            : BroadcastBy::slices;
  const bool between_two = call.collective == Collective::send_receive;
  const int other = call.root == rank() ? call.peer : call.root;
  if (between_two && (other < 0 || other >= world_size() || other == rank()))
    throw BadInput("send from rank {} to rank {}: expected two different ranks from 0 to {}",
                   call.root, call.peer, world_size() - 1);
  call.number = between_two ? messages_[static_cast<size_t>(other)].number + 1 : ++sequence_;
  if (between_two) messages_[static_cast<size_t>(other)] = call;
  guard(call, cargo, handover, [&] {
    if (prepare) prepare();
    if (call.collective == Collective::all_gather && shared_direct_ &&
        call.place == transport::Place::host && call.count > 0)
      return count(shared_direct_->gather(label_of(call), buffers[0].data, call.count, call.type,
                                          transport_->for_host_memory(),
                                          Deadline::in(options_.timeout_seconds)));
    by_program(call, buffers, one_each_);
    if (call.collective != Collective::all_to_all || call.count == 0) return;
    const Range own = slice(call.count, world_size(), rank());
    const size_t begin = static_cast<size_t>(own.begin) * bytes_of(call.type);
    arithmetic(buffers[0].place)
        .copy(buffers[1].data + begin, buffers[0].data + begin,
              static_cast<size_t>(own.size()) * bytes_of(call.type));
  });
}

// The label is the same for all messages, whatever the partners and counts: sizes are compared by
// the transport.
void Communicator::exchange_now(const Call& call, const Buffer& outgoing, const Buffer& incoming) {
  const auto is_rank = [&](int rank) { return rank >= 0 && rank < world_size(); };
  if (!is_rank(call.peer) || !is_rank(call.root) || (call.peer == rank()) != (call.root == rank()))
    throw BadInput("exchange to rank {} and from rank {}: expected other ranks from 0 to {}",
                   call.peer, call.root, world_size() - 1);
  if (call.peer == rank() && outgoing.bytes() != incoming.bytes())
    throw BadInput("exchange of rank {} with itself: {} bytes sent, {} received", rank(),
                   outgoing.bytes(), incoming.bytes());
  if (outgoing.place != incoming.place)
    throw BadInput("exchange of rank {}: expected both buffers in one memory", rank());
  Call any_pair = call;
  any_pair.count = any_pair.root = any_pair.peer = 0;
  const transport::Outgoing out{call.peer, outgoing.data, outgoing.bytes()};
  const transport::Incoming in{call.root, incoming.data, incoming.bytes()};
  const bool sends = call.peer != rank() && out.bytes > 0;
  const bool receives = call.root != rank() && in.bytes > 0;
  carrier(outgoing.place)
      .exchange(label_of(any_pair), {&out, sends ? 1U : 0U}, {&in, receives ? 1U : 0U},
                Deadline::in(options_.timeout_seconds));
  if (!sends && !receives) arithmetic(outgoing.place).copy(in.into, out.from, out.bytes);
  if (sends) count(static_cast<int64_t>(out.bytes));
}

}  // namespace lockstep::collective
