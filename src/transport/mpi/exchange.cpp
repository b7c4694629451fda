// A message is an *envelope* (its label and size, and a small message's data) followed by *pieces*
// of equal size. A receiver reads the envelope before it posts receives for pieces, so that ranks
// that call different collectives get a Disagreement and not an MPI error; it combines one piece
// while the next ones arrive. The n-th message between two ranks in an exchange has its own tags,
// so that pieces of several messages do not mix.
#include "transport/mpi/exchange.h"

#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <cstring>

namespace lockstep::transport::mpi {
namespace {

constexpr int kPollsBeforeYield = 2000;
constexpr int kPollsPerLookAtTheClock = 64;

}  // namespace

void Exchange::begin(const Label& label, std::span<const Outgoing> outgoing,
                     std::span<const Incoming> incoming) {
  if (failed_)
    throw Error("[mpi] an earlier exchange failed; the transport cannot be used any more");
  label_ = label;
  outgoing_ = outgoing;
  incoming_ = incoming;
  sends_.clear();
  receives_.clear();
  requests_.clear();
  tasks_.clear();
  pending_ = 0;
  sends_.resize(outgoing.size());
  receives_.resize(incoming.size());
  envelopes_.resize(std::max(envelopes_.size(), outgoing.size() + incoming.size()));
  std::vector<int> to(port_.peers.size());
  std::vector<int> from(port_.peers.size());
  const auto tag = [&](int& messages) { return port_.first_tag + messages++ % (kTags / 2) * 2; };
  for (size_t i = 0; i < outgoing.size(); ++i)
    sends_[i].tag = tag(to[static_cast<size_t>(outgoing[i].peer)]);
  for (size_t i = 0; i < incoming.size(); ++i)
    receives_[i].tag = tag(from[static_cast<size_t>(incoming[i].peer)]);
}

void Exchange::run(const Label& label, std::span<const Outgoing> outgoing,
                   std::span<const Incoming> incoming, Deadline deadline) {
  begin(label, outgoing, incoming);
  try {
    for (size_t i = 0; i < incoming.size(); ++i)
      post_receive({MpiPart::envelope, i, 0, 0, incoming[i].peer}, &envelopes_[i], sizeof(Envelope),
                   receives_[i].tag);
    for (size_t i = 0; i < outgoing.size(); ++i) send_envelope(i);
    int idle = 0;
    WatchedWait wait(watch_);
    while (pending_ > 0) {
      poll();
      for (const MpiTask& task : done_) complete(task);
      idle = done_.empty() ? idle + 1 : 0;
      if (idle > 0 && (port_.crowded || idle > kPollsBeforeYield)) sched_yield();
      if (!done_.empty()) wait.restart();
      if (idle % kPollsPerLookAtTheClock == kPollsPerLookAtTheClock - 1)
        look_at_the_clock(deadline, wait);
    }
  } catch (...) {
    drop_requests();
    throw;
  }
}

MPI_Request& Exchange::add(const MpiTask& task) {
  ++pending_;
  const auto free = std::find(requests_.begin(), requests_.end(), MPI_REQUEST_NULL);
  const auto place = static_cast<size_t>(free - requests_.begin());
  if (free == requests_.end()) {
    requests_.push_back(MPI_REQUEST_NULL);
    tasks_.push_back(task);
  }
  tasks_[place] = task;
  return requests_[place];
}

void Exchange::post_send(const MpiTask& task, const void* data, size_t bytes, int tag) {
  const MutexLock lock(library_.mutex());
  check(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, task.peer, tag, port_.communicator,
                  &add(task)),
        "MPI_Isend");
}

void Exchange::post_receive(const MpiTask& task, void* into, size_t bytes, int tag) {
  const MutexLock lock(library_.mutex());
  check(MPI_Irecv(into, static_cast<int>(bytes), MPI_BYTE, task.peer, tag, port_.communicator,
                  &add(task)),
        "MPI_Irecv");
}

void Exchange::send_envelope(size_t message) {
  const Outgoing& out = outgoing_[message];
  Envelope& envelope = envelopes_[incoming_.size() + message];
  envelope.header = {label_, out.bytes};
  const size_t inlined = out.bytes <= kInlined ? out.bytes : 0;
  if (inlined > 0) std::memcpy(envelope.inlined.data(), out.from, inlined);
  post_send({MpiPart::sent_envelope, message, 0, 0, out.peer}, &envelope, sizeof(Header) + inlined,
            sends_[message].tag);
  if (inlined == out.bytes) return;
  for (size_t k = 0; k < kInFlight; ++k) send_next_piece(message);
}

void Exchange::send_next_piece(size_t message) {
  const Outgoing& out = outgoing_[message];
  MpiMessage& state = sends_[message];
  const size_t bytes = std::min(kPiece, out.bytes - state.posted);
  if (bytes == 0) return;
  const size_t begin = state.posted;
  state.posted += bytes;
  post_send({MpiPart::sent_piece, message, begin, bytes, out.peer}, out.from + begin, bytes,
            state.tag + 1);
}

// Where a piece arrives: its final place, or scratch memory from which it is combined.
std::byte* Exchange::landing_place(size_t message, size_t begin) {
  const Incoming& in = incoming_[message];
  if (in.combine == nullptr) return in.into + begin;
  auto& scratch = receives_[message].scratch[begin / kPiece % kInFlight];
  if (scratch == nullptr) scratch = std::make_unique<Scratch>();
  return scratch->data();
}

void Exchange::receive_next_piece(size_t message) {
  const Incoming& in = incoming_[message];
  MpiMessage& state = receives_[message];
  const size_t bytes = std::min(kPiece, in.bytes - state.posted);
  if (bytes == 0) return;
  const size_t begin = state.posted;
  state.posted += bytes;
  post_receive({MpiPart::piece, message, begin, bytes, in.peer}, landing_place(message, begin),
               bytes, state.tag + 1);
}

void Exchange::open(size_t message) {
  const Incoming& in = incoming_[message];
  const Envelope& envelope = envelopes_[message];
  const Header& header = envelope.header;
  if (header.label != label_ || header.bytes != in.bytes)
    throw Disagreement(in.peer, header.label, header.bytes,
                       fmt::format("{} sent another message ({} bytes) than {} expected ({} bytes)",
                                   port_.peers[static_cast<size_t>(in.peer)].text(), header.bytes,
                                   port_.peers[static_cast<size_t>(port_.rank)].text(), in.bytes));
  if (in.bytes > kInlined) {
    for (size_t k = 0; k < kInFlight; ++k) receive_next_piece(message);
  } else if (in.combine != nullptr) {
    in.combine(in.into, envelope.inlined.data(), in.bytes);
  } else if (in.bytes > 0) {
    std::memcpy(in.into, envelope.inlined.data(), in.bytes);
  }
}

void Exchange::complete(const MpiTask& task) {
  switch (task.part) {
    case MpiPart::sent_envelope:
      return;
    case MpiPart::sent_piece:
      return send_next_piece(task.message);
    case MpiPart::envelope:
      return open(task.message);
    case MpiPart::piece: {
      const Incoming& in = incoming_[task.message];
      if (in.combine != nullptr)
        in.combine(in.into + task.begin, landing_place(task.message, task.begin), task.bytes);
      return receive_next_piece(task.message);
    }
  }
}

// Sets done_ to the tasks that have completed; their places in requests_ become free.
void Exchange::poll() {
  found_.resize(requests_.size());
  statuses_.resize(requests_.size());
  done_.clear();
  int found = 0;
  const MutexLock lock(library_.mutex());
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &found,
                                found_.data(), statuses_.data());
  if (code == MPI_ERR_IN_STATUS) throw_failed(found);
  check(code, "MPI_Testsome");
  for (int k = 0; k < found; ++k)  // MPI_UNDEFINED is negative
    done_.push_back(tasks_[static_cast<size_t>(found_[static_cast<size_t>(k)])]);
  pending_ -= done_.size();
}

void Exchange::throw_failed(int found) {
  for (int k = 0; k < found; ++k) {
    const int code = statuses_[static_cast<size_t>(k)].MPI_ERROR;
    if (code == MPI_SUCCESS) continue;
    const MpiTask& task = tasks_[static_cast<size_t>(found_[static_cast<size_t>(k)])];
    const Peer& peer = port_.peers[static_cast<size_t>(task.peer)];
    throw PeerLost(peer.rank, fmt::format("[mpi] {}: {}", peer.text(), error_text(code)));
  }
}

// The ranks whose messages are missing; if none is, those that have not received what was sent.
std::map<int, std::string> Exchange::late_ranks() const {
  std::map<int, std::string> silent;
  std::map<int, std::string> not_taking;
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    const Peer& peer = port_.peers[static_cast<size_t>(tasks_[i].peer)];
    const bool receives = tasks_[i].part == MpiPart::envelope || tasks_[i].part == MpiPart::piece;
    (receives ? silent : not_taking)[peer.rank] = peer.text();
  }
  return silent.empty() ? not_taking : silent;
}

void Exchange::look_at_the_clock(Deadline deadline, WatchedWait& wait) const {
  std::vector<int> ranks;
  std::vector<std::string> names;
  const auto find_late = [&] {
    for (const auto& [rank, name] : late_ranks()) {
      ranks.push_back(rank);
      names.push_back(name);
    }
    return ranks;
  };
  wait.look(find_late);
  if (!deadline.passed()) return;
  if (ranks.empty()) find_late();
  throw Timeout(ranks, fmt::format("[mpi] {} timed out waiting for {}",
                                   port_.peers[static_cast<size_t>(port_.rank)].text(),
                                   fmt::join(names, ", ")));
}

// Cancels requests that have not started; MPI keeps the others until the process ends.
void Exchange::drop_requests() noexcept {
  failed_ = true;
  library_.give_up();
  const MutexLock lock(library_.mutex());
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    const bool receives = tasks_[i].part == MpiPart::envelope || tasks_[i].part == MpiPart::piece;
    if (receives) MPI_Cancel(&requests_[i]);
    MPI_Request_free(&requests_[i]);
  }
}

void Exchange::finish(MPI_Request request, Deadline deadline) {
  int idle = 0;
  WatchedWait wait(watch_);
  std::vector<int> others;
  for (const Peer& peer : port_.peers)
    if (peer.rank != port_.peers[static_cast<size_t>(port_.rank)].rank) others.push_back(peer.rank);
  while (true) {
    int done = 0;
    {
      const MutexLock lock(library_.mutex());
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    }
    if (done != 0) return;
    if (++idle > kPollsBeforeYield || port_.crowded) sched_yield();
    if (idle % kPollsPerLookAtTheClock != 0) continue;
    wait.look([&] { return others; });
    if (!deadline.passed()) continue;
    library_.give_up();
    throw Timeout(others, fmt::format("[mpi] MPI's own all-reduce timed out: at least one of the "
                                      "ranks {} did not take part",
                                      fmt::join(others, ", ")));
  }
}

}  // namespace lockstep::transport::mpi
