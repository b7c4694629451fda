// Follows every contribution through a plan. A value is an expression: a leaf is one rank's
// contribution, a sum is a pair; sums are interned, so equal expressions have equal numbers.
#include "collective/all_reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "collective/order.h"
#include "expect_error.h"

namespace lockstep::collective {
namespace {

constexpr int64_t kNothing = -1;

class Expressions {
 public:
  explicit Expressions(int world) : world_(world), next_(world) {}

  int64_t sum(int64_t a, int64_t b) {
    const auto [found, is_new] = sums_.try_emplace(std::minmax(a, b), next_);
    if (is_new) ++next_;
    return found->second;
  }

  int64_t canonical(int64_t begin, int64_t end) {
    if (end - begin == 1) return begin;
    const int64_t half = middle(begin, end);
    return sum(canonical(begin, half), canonical(half, end));
  }

  // How often each rank's contribution is in an expression.
  std::vector<int> leaves(int64_t expression) const {
    std::vector<int> counts(static_cast<size_t>(world_), 0);
    count(expression, counts);
    return counts;
  }

 private:
  void count(int64_t expression, std::vector<int>& counts) const {
    if (expression < world_) {
      ++counts[static_cast<size_t>(expression)];
      return;
    }
    for (const auto& [parts, sum] : sums_)
      if (sum == expression) {
        count(parts.first, counts);
        count(parts.second, counts);
      }
  }

  int world_;
  int64_t next_;
  std::map<std::pair<int64_t, int64_t>, int64_t> sums_;
};

using Memory = std::vector<std::vector<int64_t>>;  // [slot][element]

struct Outcome {
  std::vector<Memory> ranks;
  std::vector<int64_t> elements_sent;  // by rank
};

struct Message {
  Range range;
  std::vector<int64_t> values;
};

// What each rank sends in a round, as it was before the round.
std::map<std::pair<int, int>, std::vector<Message>> post(const std::vector<Round>& rounds,
                                                         Outcome& outcome) {
  std::map<std::pair<int, int>, std::vector<Message>> wires;
  for (size_t rank = 0; rank < rounds.size(); ++rank)
    for (const Send& send : rounds[rank].sends) {
      const auto& slot = outcome.ranks[rank][static_cast<size_t>(send.slot)];
      wires[{static_cast<int>(rank), send.peer}].push_back(
          {send.range, {slot.begin() + send.range.begin, slot.begin() + send.range.end}});
      outcome.elements_sent[rank] += send.range.size();
    }
  return wires;
}

void fold_all(const Round& round, Memory& memory, Expressions& expressions) {
  for (const Fold& fold : round.folds)
    for (int64_t i = fold.range.begin; i < fold.range.end; ++i) {
      ASSERT_NE(memory[fold.into][i], kNothing);
      ASSERT_NE(memory[fold.from][i], kNothing);
      memory[fold.into][i] = expressions.sum(memory[fold.into][i], memory[fold.from][i]);
    }
}

// Runs all ranks, round by round. Fails when a message has no match, or when nothing is folded.
Outcome run(const Plan& plan, Expressions& expressions) {
  Outcome outcome;
  outcome.elements_sent.assign(static_cast<size_t>(plan.world), 0);
  for (int rank = 0; rank < plan.world; ++rank) {
    outcome.ranks.emplace_back(static_cast<size_t>(plan.slots),
                               std::vector<int64_t>(static_cast<size_t>(plan.count), kNothing));
    std::fill(outcome.ranks.back()[0].begin(), outcome.ranks.back()[0].end(), rank);
  }
  for (int index = 0; index < plan.rounds; ++index) {
    std::vector<Round> rounds;
    for (int rank = 0; rank < plan.world; ++rank) rounds.push_back(plan.round(rank, index));
    auto wires = post(rounds, outcome);
    for (int rank = 0; rank < plan.world; ++rank) {
      Memory& memory = outcome.ranks[static_cast<size_t>(rank)];
      for (const Receive& receive : rounds[static_cast<size_t>(rank)].receives) {
        auto& wire = wires[{receive.peer, rank}];
        if (wire.empty() || wire.front().range != receive.range) {
          ADD_FAILURE() << "round " << index << ": rank " << rank << " receives from "
                        << receive.peer << " what was not sent";
          return outcome;
        }
        std::copy(wire.front().values.begin(), wire.front().values.end(),
                  memory[receive.slot].begin() + receive.range.begin);
        wire.erase(wire.begin());
      }
      fold_all(rounds[static_cast<size_t>(rank)], memory, expressions);
    }
    for (const auto& [pair, wire] : wires)
      EXPECT_TRUE(wire.empty()) << "rank " << pair.first << " sends what " << pair.second
                                << " does not receive";
  }
  return outcome;
}

int rounds_by_formula(Algorithm algorithm, int world) {
  switch (algorithm) {
    case Algorithm::one_to_all:
    case Algorithm::ring:
      return 2 * (world - 1);
    case Algorithm::tree:
    case Algorithm::halving_doubling:
      return 2 * depth(world);
    case Algorithm::butterfly:
      return depth(world);
    case Algorithm::direct:
      return world > 1 ? 2 : 0;
  }
  return -1;
}

std::vector<int> worlds() {
  std::vector<int> sizes = {64};
  for (int world = 1; world <= 17; ++world) sizes.push_back(world);
  return sizes;
}

class AllReduce : public ::testing::TestWithParam<std::string> {
 protected:
  Algorithm algorithm() const { return parse_algorithm(GetParam()); }

  /// Calls `test` with the outcome of every world size and count.
  template <typename Test>
  void for_every_outcome(const Test& test) const {
    for (const int world : worlds())
      for (const int64_t count :
           {int64_t{0}, int64_t{1}, int64_t{world - 1}, int64_t{world}, int64_t{1000}}) {
        SCOPED_TRACE(::testing::Message() << world << " ranks, " << count << " elements");
        Expressions expressions(world);
        const Outcome outcome = run(all_reduce(algorithm(), world, count), expressions);
        test(world, outcome, expressions);
        if (HasFailure()) return;
      }
  }
};

TEST_P(AllReduce, AddsEveryContributionExactlyOnce) {
  for_every_outcome([](int world, const Outcome& outcome, Expressions& expressions) {
    std::set<int64_t> results;
    for (const Memory& memory : outcome.ranks)
      results.insert(memory[kBucket].begin(), memory[kBucket].end());
    for (const int64_t result : results)
      EXPECT_EQ(expressions.leaves(result), std::vector<int>(static_cast<size_t>(world), 1));
  });
}

TEST_P(AllReduce, GivesEveryRankTheSameExpression) {
  for_every_outcome([](int, const Outcome& outcome, Expressions&) {
    for (const Memory& memory : outcome.ranks)
      EXPECT_EQ(memory[kBucket], outcome.ranks[0][kBucket]);
  });
}

TEST_P(AllReduce, AddsAlongTheCanonicalTreeExactlyIfItSaysSo) {
  bool always = true;
  for_every_outcome([&](int world, const Outcome& outcome, Expressions& expressions) {
    const int64_t canonical = expressions.canonical(0, world);
    for (const int64_t result : outcome.ranks[0][kBucket]) always = always && result == canonical;
  });
  EXPECT_EQ(always, is_canonical(algorithm()));
}

TEST_P(AllReduce, TakesTheFormulasRounds) {
  for (const int world : worlds())
    EXPECT_EQ(all_reduce(algorithm(), world, 1000).rounds, rounds_by_formula(algorithm(), world));
}

INSTANTIATE_TEST_SUITE_P(Every, AllReduce, ::testing::ValuesIn(algorithm_names()),
                         [](const auto& info) { return info.param; });

TEST(LeanAllReduce, SendsNoMoreThanTheLowerBound) {
  constexpr int64_t kCount = 100'000;
  for (const Algorithm algorithm :
       {Algorithm::ring, Algorithm::halving_doubling, Algorithm::direct})
    for (const int world : worlds()) {
      const Plan plan = all_reduce(algorithm, world, kCount);
      const double bound = 2.0 * (world - 1) / world * kCount;
      for (int rank = 0; rank < world; ++rank) {
        int64_t sent = 0;
        for (int index = 0; index < plan.rounds; ++index)
          for (const Send& send : plan.round(rank, index).sends) sent += send.range.size();
        EXPECT_NEAR(static_cast<double>(sent), bound, 2.0 * world)
            << algorithm_names()[static_cast<size_t>(algorithm)] << ", rank " << rank << " of "
            << world;
      }
    }
}

TEST(AllReduceNames, AreSuggestedWhenMistyped) {
  expect_bad_input([] { parse_algorithm("buterfly"); }, {"did you mean 'butterfly'"});
}

TEST(AllReduceNames, RefuseWorldsAndCountsThatCannotBe) {
  expect_bad_input([] { all_reduce(Algorithm::ring, 0, 1); }, {"0 ranks"});
  expect_bad_input([] { all_reduce(Algorithm::ring, 2, -1); }, {"-1 elements"});
}

}  // namespace
}  // namespace lockstep::collective
