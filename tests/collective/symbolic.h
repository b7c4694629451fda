// Follows every contribution through a plan. A value is an expression: a leaf is one shard's
// contribution, a sum is a pair, and what was finished is marked; all are interned, so equal
// expressions have equal numbers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "collective/plan/all_reduce.h"
#include "collective/plan/plan.h"
#include "collective/plan/shards.h"

namespace lockstep::collective {

constexpr int64_t kNothing = -1;

class Expressions {
 public:
  explicit Expressions(int64_t shards) : shards_(shards) {}

  int64_t sum(int64_t a, int64_t b) { return intern(std::minmax(a, b)); }
  int64_t finished(int64_t sum) { return intern({kMark, sum}); }

  int64_t canonical(int64_t begin, int64_t end) {
    if (end - begin == 1) return begin;
    const int64_t half = middle(begin, end);
    return sum(canonical(begin, half), canonical(half, end));
  }

  /// What every rank has to end with: a mean of one shard is that shard.
  int64_t canonical_result() { return shards_ == 1 ? 0 : finished(canonical(0, shards_)); }

  /// The sum that was finished; nothing if the expression is not one.
  std::optional<int64_t> before_finish(int64_t expression) const {
    if (expression < shards_ || parts(expression).first != kMark) return std::nullopt;
    return parts(expression).second;
  }

  /// How often each shard is in a sum. Fails if something in it was finished.
  std::vector<int> leaves(int64_t expression) const {
    std::vector<int> counts(static_cast<size_t>(shards_), 0);
    count(expression, counts);
    return counts;
  }

 private:
  using Parts = std::pair<int64_t, int64_t>;
  static constexpr int64_t kMark = -2;

  const Parts& parts(int64_t expression) const {
    return made_[static_cast<size_t>(expression - shards_)];
  }

  int64_t intern(Parts parts) {
    // Neighbouring elements mostly ask the same.
    if (parts == last_) return last_number_;
    const auto next = shards_ + static_cast<int64_t>(made_.size());
    const auto [found, is_new] = numbers_.try_emplace(parts, next);
    if (is_new) made_.push_back(parts);
    last_ = parts;
    return last_number_ = found->second;
  }

  void count(int64_t expression, std::vector<int>& counts) const {
    if (expression < shards_) {
      ++counts[static_cast<size_t>(expression)];
      return;
    }
    ASSERT_NE(parts(expression).first, kMark) << "finished before it was complete";
    count(parts(expression).first, counts);
    count(parts(expression).second, counts);
  }

  int64_t shards_;
  std::vector<Parts> made_;
  std::map<Parts, int64_t> numbers_;
  Parts last_ = {kNothing, kNothing};
  int64_t last_number_ = kNothing;
};

using Memory = std::vector<std::vector<int64_t>>;  // [slot][element]

inline bool overlap(Range a, Range b) {
  return std::max(a.begin, b.begin) < std::min(a.end, b.end);
}

/// Runs all ranks of a plan, round by round, and fails where a round breaks the rules of plan.h.
class Symbolic {
 public:
  /// Whether messages arrive in the range that they were sent from, or anywhere.
  enum class Arrive { in_place, anywhere };
  Symbolic(const Plan& plan, const Shards& shards, Expressions& expressions,
           Arrive arrive = Arrive::in_place)
      : plan_(plan), expressions_(expressions), arrive_(arrive) {
    for (int rank = 0; rank < plan.world; ++rank) {
      const auto& terms = shards.terms_of(rank);
      const auto slots = std::max(terms.size(), static_cast<size_t>(plan.slots));
      const auto count = static_cast<size_t>(plan.count);
      ranks_.emplace_back(slots, std::vector<int64_t>(count, kNothing));
      for (size_t i = 0; i < terms.size(); ++i)
        ranks_.back()[i].assign(count, expressions.canonical(terms[i].begin, terms[i].end));
    }
    for (int index = 0; index < plan.rounds && !::testing::Test::HasFailure(); ++index) run(index);
  }

  /// What a rank ends with.
  const std::vector<int64_t>& bucket(int rank) const { return slot(rank, kBucket); }
  const std::vector<int64_t>& slot(int rank, Slot slot) const {
    return ranks_[static_cast<size_t>(rank)][static_cast<size_t>(slot)];
  }

 private:
  struct Message {
    Range range;
    std::vector<int64_t> values;
  };
  using Wires = std::map<std::pair<int, int>, std::vector<Message>>;

  void run(int index) {
    SCOPED_TRACE(::testing::Message() << "round " << index);
    std::vector<Round> rounds;
    for (int rank = 0; rank < plan_.world; ++rank) rounds.push_back(plan_.round(rank, index));
    Wires wires;
    for (int rank = 0; rank < plan_.world; ++rank) {
      const Round& round = rounds[static_cast<size_t>(rank)];
      check_memory(round, rank);
      if (::testing::Test::HasFailure()) return;
      post(round, rank, wires);
    }
    for (int rank = 0; rank < plan_.world; ++rank) {
      Memory& memory = ranks_[static_cast<size_t>(rank)];
      take(rounds[static_cast<size_t>(rank)], rank, memory, wires);
      fold(rounds[static_cast<size_t>(rank)], memory);
    }
    for (const auto& [pair, wire] : wires)
      EXPECT_TRUE(wire.empty()) << pair.first << " sends what " << pair.second
                                << " does not receive";
  }

  void check_range(Slot slot, Range range) const {
    ASSERT_TRUE(slot >= 0 && slot < plan_.slots) << "slot " << slot << " of " << plan_.slots;
    ASSERT_TRUE(range.begin >= 0 && range.begin < range.end && range.end <= plan_.count)
        << range.begin << "-" << range.end;
  }

  // A transport reads what it sends while messages arrive, and lets all of them arrive at once.
  void check_memory(const Round& round, int rank) const {
    for (const Send& send : round.sends) {
      check_range(send.slot, send.range);
      ASSERT_NE(send.peer, rank);
    }
    for (size_t i = 0; i < round.receives.size(); ++i) {
      const Receive& receive = round.receives[i];
      check_range(receive.slot, receive.range);
      for (const Send& send : round.sends)
        ASSERT_FALSE(receive.slot == send.slot && overlap(receive.range, send.range))
            << "rank " << rank << " receives where it sends from";
      for (size_t j = 0; j < i; ++j)
        ASSERT_FALSE(receive.slot == round.receives[j].slot &&
                     overlap(receive.range, round.receives[j].range))
            << "rank " << rank << " receives twice in one place";
    }
    for (const SlotFold& fold : round.folds) {
      check_range(fold.into, fold.range);
      check_range(fold.from, fold.range);
      ASSERT_NE(fold.into, fold.from);
    }
    for (const Range& range : round.finished) check_range(kBucket, range);
  }

  // What a rank sends is what it had before the round.
  void post(const Round& round, int rank, Wires& wires) {
    for (const Send& send : round.sends) {
      const auto& slot = ranks_[static_cast<size_t>(rank)][static_cast<size_t>(send.slot)];
      wires[{rank, send.peer}].push_back(
          {send.range, {slot.begin() + send.range.begin, slot.begin() + send.range.end}});
    }
  }

  void take(const Round& round, int rank, Memory& memory, Wires& wires) const {
    for (const Receive& receive : round.receives) {
      auto& wire = wires[{receive.peer, rank}];
      ASSERT_TRUE(!wire.empty() && wire.front().range.size() == receive.range.size() &&
                  (arrive_ == Arrive::anywhere || wire.front().range == receive.range))
          << "rank " << rank << " receives from " << receive.peer << " what was not sent";
      std::copy(wire.front().values.begin(), wire.front().values.end(),
                memory[static_cast<size_t>(receive.slot)].begin() + receive.range.begin);
      wire.erase(wire.begin());
    }
  }

  void fold(const Round& round, Memory& memory) {
    for (const SlotFold& fold : round.folds) {
      auto& into = memory[static_cast<size_t>(fold.into)];
      const auto& from = memory[static_cast<size_t>(fold.from)];
      for (auto i = static_cast<size_t>(fold.range.begin); i < static_cast<size_t>(fold.range.end);
           ++i) {
        ASSERT_TRUE(into[i] != kNothing && from[i] != kNothing) << "folds nothing";
        into[i] = expressions_.sum(into[i], from[i]);
      }
    }
    auto& bucket = memory[kBucket];
    for (const Range& range : round.finished)
      for (auto i = static_cast<size_t>(range.begin); i < static_cast<size_t>(range.end); ++i)
        bucket[i] = expressions_.finished(bucket[i]);
  }

  const Plan& plan_;
  Expressions& expressions_;
  const Arrive arrive_;
  std::vector<Memory> ranks_;
};

/// Every rank ends with the same sums; each was finished once, and then had each shard once.
inline void expect_complete(const Symbolic& outcome, const Shards& shards,
                            const Expressions& expressions) {
  const auto& bucket = outcome.bucket(0);
  for (int rank = 1; rank < shards.world_size(); ++rank) ASSERT_EQ(outcome.bucket(rank), bucket);
  if (shards.count() == 1) return;
  for (const int64_t result : std::set(bucket.begin(), bucket.end())) {
    const auto sum = expressions.before_finish(result);
    ASSERT_TRUE(sum) << "not finished";
    ASSERT_EQ(expressions.leaves(*sum), std::vector<int>(static_cast<size_t>(shards.count()), 1));
  }
}

inline bool is_canonical_everywhere(const Symbolic& outcome, Expressions& expressions) {
  const auto& bucket = outcome.bucket(0);
  const int64_t canonical = expressions.canonical_result();
  return std::all_of(bucket.begin(), bucket.end(),
                     [&](int64_t result) { return result == canonical; });
}

/// The names of all algorithms that are plans: parameters of tests.
inline std::vector<std::string> planned_names() {
  std::vector<std::string> names;
  for (const Algorithm algorithm : planned_algorithms()) names.push_back(algorithm.name());
  return names;
}

/// 1 to 17, and 64.
inline std::vector<int> worlds() {
  std::vector<int> sizes;
  for (int world = 1; world <= 17; ++world) sizes.push_back(world);
  sizes.push_back(64);
  return sizes;
}

inline std::vector<int64_t> counts(int world) {
  return {0, 1, world - 1, world, 1000};
}

}  // namespace lockstep::collective
