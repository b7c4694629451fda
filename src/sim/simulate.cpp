// Runs a plan, round by round: what is sent in a round is received in it, so only one round of all
// ranks is in memory at a time. The invariant: before round r, start_[rank] is when that rank has
// done all of its rounds before r. Ranks wait for each other only by messages.
//
// A message of round r *begins* when its sender has begun the round and spent one overhead on it,
// and its receiver has begun the round too; one of at most `eager_bytes` does not wait for the
// receiver. Links carry it (sim/traffic.cpp) and it *arrives* one latency later. Its receiver wakes
// up once a round, spends an overhead on each message, and folds when all have arrived. Its sender
// is done with it at once if it is eager, else when it has arrived.
//
// A rank's processor and its links work at the same time. So k messages at a time take either k
// times the link and once the processor, or once the link and k times the processor, whichever is
// longer; and a processor's work in a round is never less than the sum of its overheads. Where
// ranks share processors, those do the overheads of a round after those of the rounds before, in
// any order: a rank is done with a round when the shared processors are.
#include "sim/simulate.h"

#include <algorithm>
#include <limits>

#include "lockstep/error.h"
#include "sim/traffic.h"

namespace lockstep::sim {
namespace {

using collective::Plan;
using collective::Round;

// What one rank does in a round.
struct RankRound {
  int messages = 0;
  double sending = 0;    // overheads of what it sends
  double receiving = 0;  // and receives
  double costliest = 0;  // of what it receives
  int64_t folded = 0;    // bytes
  double sent = 0;       // when the last message that it must wait for has arrived
  double arrived = 0;    // when the last message to it has
  double first = std::numeric_limits<double>::infinity();  // when the first could have, alone

  bool idle() const { return messages == 0 && folded == 0; }
  bool receives() const { return first != std::numeric_limits<double>::infinity(); }
};

class Simulation {
 public:
  Simulation(const Plan& plan, int64_t element_bytes, const Network& network)
      : plan_(plan),
        element_bytes_(element_bytes),
        network_(network),
        traffic_(network, plan.world),
        start_(static_cast<size_t>(plan.world)),
        sent_(static_cast<size_t>(plan.world)),
        turns_(static_cast<size_t>(plan.world)) {}

  Timing run() {
    for (int index = 0; index < plan_.rounds; ++index) {
      post(index);
      for (Message& message : messages_) message.begin = begin_of(message);
      traffic_.carry(messages_);
      for (const Message& message : messages_) deliver(message);
      finish_round();
    }
    timing_.rounds = plan_.rounds;
    timing_.finish = start_;
    timing_.seconds = *std::max_element(start_.begin(), start_.end());
    timing_.bytes_most = *std::max_element(sent_.begin(), sent_.end());
    timing_.link_busy = traffic_.busy();
    return std::move(timing_);
  }

 private:
  void post(int index) {
    messages_.clear();
    for (int rank = 0; rank < plan_.world; ++rank) {
      const Round round = plan_.round(rank, index);
      RankRound& turn = turns_[rank];
      for (const auto& fold : round.folds) turn.folded += fold.range.size() * element_bytes_;
      for (const auto& send : round.sends) {
        const int64_t bytes = send.range.size() * element_bytes_;
        messages_.push_back({.from = rank, .to = send.peer, .bytes = bytes, .begin = 0});
        turn.sending += overhead_of(messages_.back());
        ++turn.messages;
        sent_[rank] += bytes;
        timing_.bytes_total += bytes;
      }
    }
    timing_.messages += std::ssize(messages_);
  }

  bool eager(const Message& message) const { return message.bytes <= network_.eager_bytes; }

  double overhead_of(const Message& message) const {
    const double bytes = eager(message) ? static_cast<double>(message.bytes) : 0;
    return network_.overhead + bytes * network_.overhead_per_byte;
  }

  double begin_of(const Message& message) const {
    const double ready = start_[message.from] + overhead_of(message);
    return eager(message) ? ready : std::max(ready, start_[message.to]);
  }

  void deliver(const Message& message) {
    const Path path = traffic_.links().path(message.from, message.to);
    const int64_t held_up = std::max<int64_t>(0, message.bytes - network_.burst_bytes);
    const double alone = static_cast<double>(held_up) / path.bytes_per_second;
    RankRound& sender = turns_[message.from];
    RankRound& receiver = turns_[message.to];
    const double processed = start_[message.from] + sender.sending + alone;
    const double arrives = std::max(message.end, processed) + path.latency;
    ++receiver.messages;
    receiver.receiving += overhead_of(message);
    receiver.costliest = std::max(receiver.costliest, overhead_of(message));
    receiver.arrived = std::max(receiver.arrived, arrives);
    receiver.first = std::min(receiver.first, message.begin + alone + path.latency);
    if (!eager(message)) sender.sent = std::max(sender.sent, arrives);
  }

  // When shared processors are done with this round.
  double pool_end() {
    double work = 0;
    double begin = std::numeric_limits<double>::infinity();
    for (size_t rank = 0; rank < turns_.size(); ++rank) {
      if (turns_[rank].idle()) continue;
      work += turns_[rank].sending + turns_[rank].receiving;
      if (turns_[rank].receives()) work += network_.wake;
      begin = std::min(begin, start_[rank]);
    }
    if (work > 0) pool_free_ = std::max(pool_free_, begin) + work / network_.processors;
    return pool_free_;
  }

  void finish_round() {
    const double shared_end = pool_end();
    for (size_t rank = 0; rank < turns_.size(); ++rank) {
      RankRound& turn = turns_[rank];
      if (turn.idle()) continue;
      double end = start_[rank] + turn.sending + turn.receiving;
      if (turn.receives())
        end = std::max({end, turn.arrived + turn.costliest, turn.first + turn.receiving}) +
              network_.wake;
      end = std::max({end, turn.sent, shared_end + (turn.receives() ? network_.latency : 0)});
      start_[rank] = end + static_cast<double>(turn.folded) / network_.reduce_bytes_per_second;
      turn = {};
    }
  }

  const Plan& plan_;
  int64_t element_bytes_;
  const Network& network_;
  Traffic traffic_;
  std::vector<double> start_;
  std::vector<int64_t> sent_;  // bytes, by rank
  Timing timing_;
  double pool_free_ = 0;

  // Of one round.
  std::vector<Message> messages_;
  std::vector<RankRound> turns_;
};

}  // namespace

Timing simulate(const Plan& plan, int64_t element_bytes, const Network& network) {
  check(network);
  if (element_bytes < 1)
    throw BadInput("simulation of elements of {} bytes: expected at least 1", element_bytes);
  return Simulation(plan, element_bytes, network).run();
}

}  // namespace lockstep::sim
