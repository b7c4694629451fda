#include "collective/communicator.h"

#include <atomic>
#include <cstring>
#include <numeric>

#include "base/range.h"
#include "collective/benchmark_data.h"
#include "communicators.h"
#include "expect_error.h"
#include "random_shards.h"

namespace lockstep::collective {
namespace {

TEST_P(Communicators, GiveTheSameBitsForEveryAlgorithmWorldAndNumberOfTerms) {
  constexpr int64_t kShards = 8;
  for (const int world : {1, 2, 3, 4, 5, 8}) {
    std::atomic<Algorithm> chosen;
    const Shards shards = Shards::even(kShards, world);
    in_group(world, {.timeout_seconds = 20, .choose = [&](int64_t) { return chosen.load(); }},
             [&](Communicator& group) {
               for (const int64_t count : {int64_t{1}, int64_t{7}, int64_t{5000}})
                 for (const Algorithm algorithm : planned_algorithms()) {
                   if (!algorithm.is_canonical()) continue;
                   chosen = algorithm;
                   group.barrier();  // nobody chooses the next one yet
                   EXPECT_TRUE(same_bits(sum_of_shards(group, shards, count),
                                         canonical_sum(0, kShards, count)))
                       << algorithm.name() << " of " << count << " on " << world;
                   group.barrier();
                 }
             });
  }
}

TEST_P(Communicators, GiveTheSameBitsWhereRanksOwnDifferentNumbersOfShards) {
  constexpr int64_t kCount = 3000;
  const Shards shards({0, 1, 6, 7, 11, 13});
  for (const Algorithm algorithm : planned_algorithms()) {
    if (!algorithm.is_canonical()) continue;
    in_group(5, always(algorithm), [&](Communicator& group) {
      EXPECT_TRUE(same_bits(sum_of_shards(group, shards, kCount), canonical_sum(0, 13, kCount)))
          << algorithm.name();
    });
  }
}

// Over TCP on one host, 1 MiB for each rank are reduced at a time.
TEST_P(Communicators, GiveTheSameBitsForLargeBuckets) {
  constexpr int64_t kShards = 2, kCount = 600'007;
  in_group(2, [&](Communicator& group) {
    EXPECT_TRUE(same_bits(sum_of_shards(group, Shards::even(kShards, 2), kCount),
                          canonical_sum(0, kShards, kCount)));
  });
}

TEST_P(Communicators, AddBucketsInMemoryOfTheTransport) {
  constexpr int64_t kCount = 100'000;
  in_group(4, [&](Communicator& group) {
    const auto memory = group.allocate(kCount * 4);
    const Floats mine = random_floats(kCount, static_cast<uint64_t>(group.rank()));
    std::memcpy(memory.data.get(), mine.data(), kCount * 4);
    group.all_reduce({memory.data.get(), kCount, Type::f32});
    const Floats expected = canonical_sum(0, 4, kCount);
    EXPECT_EQ(std::memcmp(memory.data.get(), expected.data(), kCount * 4), 0);
  });
}

TEST_P(Communicators, ReduceEveryTypeByEveryOperationAndAlgorithm) {
  constexpr int64_t kCount = 777;
  for (const Algorithm algorithm : planned_algorithms())
    in_group(4, always(algorithm), [&](Communicator& group) {
      for (const std::string& type_name : type_names())
        for (const std::string& operation_name : operation_names()) {
          const Operation operation = parse_operation(operation_name);
          const Type type = parse_type(type_name);
          if (!is_reducible(type, operation)) continue;
          std::vector<std::byte> data(kCount * bytes_of(type));
          const Buffer buffer{data.data(), kCount, type};
          fill(buffer, group.rank(), operation);
          group.all_reduce(buffer, operation);
          EXPECT_EQ(count_wrong(Collective::all_reduce, buffer, group.rank(), 4, operation), 0)
              << algorithm.name() << " " << operation_name << " of " << type_name;
        }
    });
}

TEST_P(Communicators, ReduceNothing) {
  for (const Algorithm algorithm : planned_algorithms())
    in_group(4, always(algorithm), [](Communicator& group) {
      Floats none;
      group.all_reduce(buffer_of(none));
      group.broadcast(buffer_of(none), 3);
    });
}

TEST_P(Communicators, RunManyStartedBucketsInOrder) {
  in_group(4, [](Communicator& group) {
    std::vector<Floats> buckets;
    for (size_t i = 0; i < 50; ++i) buckets.emplace_back(1 + i * 100, static_cast<float>(i));
    std::vector<Pending> pending;
    for (Floats& bucket : buckets) pending.push_back(group.all_reduce_async(buffer_of(bucket)));
    Floats last(3, 1.0F);
    group.all_reduce(buffer_of(last));
    EXPECT_EQ(last, Floats(3, 4.0F));
    for (const Pending& each : pending) {
      EXPECT_TRUE(each.done());
      each.wait();
    }
    for (size_t i = 0; i < 50; ++i)
      EXPECT_EQ(buckets[i], Floats(1 + i * 100, 4 * static_cast<float>(i)));
  });
}

TEST_P(Communicators, DivideAMeanOnce) {
  for (const Algorithm algorithm : planned_algorithms())
    in_group(3, always(algorithm), [&](Communicator& group) {
      Floats values(1000, static_cast<float>(3 * group.rank()));
      group.all_reduce(buffer_of(values), Operation::mean);
      EXPECT_EQ(values, Floats(1000, 3.0F)) << algorithm.name();
    });
}

TEST_P(Communicators, BroadcastReduceAndGather) {
  constexpr int64_t kCount = 1000;
  in_group(4, [](Communicator& group) {
    const int rank = group.rank();
    const auto mine = static_cast<float>(rank);
    const Range own = slice(kCount, 4, rank);
    const auto owner = [&](size_t i) {
      int found = 0;
      while (slice(kCount, 4, found).end <= static_cast<int64_t>(i)) ++found;
      return static_cast<float>(found);
    };

    Floats values(kCount, mine);
    group.broadcast(buffer_of(values), 2);
    EXPECT_EQ(values, Floats(kCount, 2.0F));

    values.assign(kCount, mine);
    group.reduce(buffer_of(values), 1, Operation::max);
    if (rank == 1) {
      EXPECT_EQ(values, Floats(kCount, 3.0F));
    }

    values.assign(kCount, -1.0F);
    std::fill_n(values.begin() + own.begin, own.size(), mine);
    group.all_gather(buffer_of(values));
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], owner(i));

    values.assign(kCount, mine);
    group.gather(buffer_of(values), 0);
    for (size_t i = 0; rank == 0 && i < values.size(); ++i) EXPECT_EQ(values[i], owner(i));
  });
}

TEST_P(Communicators, ScatterAndSend) {
  constexpr int64_t kCount = 1000;
  in_group(4, [](Communicator& group) {
    const int rank = group.rank();
    const auto mine = static_cast<float>(rank);
    const Range own = slice(kCount, 4, rank);
    const auto first = static_cast<size_t>(own.begin);
    const auto last = static_cast<size_t>(own.end) - 1;

    Floats values(kCount, mine + 1);
    group.reduce_scatter(buffer_of(values));
    EXPECT_EQ(values[first], 10.0F);
    EXPECT_EQ(values[last], 10.0F);

    values.assign(kCount, mine);
    if (rank == 2) std::iota(values.begin(), values.end(), 0.0F);
    group.scatter(buffer_of(values), 2);
    EXPECT_EQ(values[first], static_cast<float>(first));
    EXPECT_EQ(values[last], static_cast<float>(last));

    group.barrier();
    values.assign(kCount, mine);
    for (const int to : {2, 3}) {
      if (rank == 0) group.send(buffer_of(values), to);
      if (rank == to) group.receive(buffer_of(values), 0);
    }
    if (rank >= 2) {
      EXPECT_EQ(values, Floats(kCount, 0.0F));
    }
    group.barrier();
  });
}

TEST_P(Communicators, SendEveryRankItsSlice) {
  in_group(4, [](Communicator& group) {
    const int rank = group.rank();
    for (const size_t part : {0, 1, 5000}) {
      Floats mine(4 * part);
      Floats theirs(4 * part, -1.0F);
      for (size_t i = 0; i < mine.size(); ++i)
        mine[i] = static_cast<float>(10 * rank) + static_cast<float>(i / part);
      const Floats before = mine;
      group.all_to_all(buffer_of(mine), buffer_of(theirs));
      EXPECT_EQ(mine, before);
      for (size_t i = 0; i < theirs.size(); ++i)
        ASSERT_EQ(theirs[i], static_cast<float>(10 * (i / part)) + static_cast<float>(rank));
    }
  });
}

TEST_P(Communicators, ExchangeLargeMessagesInACircle) {
  constexpr size_t kCount = 1'000'000;  // more than any transport buffers
  in_group(3, [](Communicator& group) {
    const int rank = group.rank();
    Floats mine(kCount + static_cast<size_t>(rank), static_cast<float>(rank));
    const int before = (rank + 2) % 3;
    Floats theirs(kCount + static_cast<size_t>(before));
    group.exchange(buffer_of(mine), (rank + 1) % 3, buffer_of(theirs), before);
    EXPECT_EQ(theirs, Floats(theirs.size(), static_cast<float>(before)));
  });
  in_group(1, [](Communicator& group) {
    Floats mine(10, 3.0F);
    Floats theirs(10);
    group.exchange(buffer_of(mine), 0, buffer_of(theirs), 0);
    EXPECT_EQ(theirs, mine);
  });
}

TEST_P(Communicators, StartEveryKindOfCollective) {
  in_group(2, [](Communicator& group) {
    const auto mine = static_cast<float>(group.rank());
    auto values = std::make_shared<Floats>(100, mine);
    auto other = std::make_shared<Floats>(100, -1.0F);
    const Buffer buffer = buffer_of(*values);
    const std::array<Buffer, 2> both = {buffer, buffer_of(*other)};
    const int peer = 1 - group.rank();
    std::vector<Pending> started;
    started.push_back(group.start({.operation = Operation::max}, {&buffer, 1}, values));
    started.push_back(
        group.start({.collective = Collective::exchange, .root = peer, .peer = peer}, both, other));
    started.push_back(group.start({.collective = Collective::all_to_all}, both, other));
    started.push_back(
        group.start({.collective = Collective::broadcast, .root = 1}, {&buffer, 1}, values));
    started.push_back(group.start({.collective = Collective::send_receive, .root = 0, .peer = 1},
                                  {&buffer, 1}, values));
    for (const Pending& pending : started) pending.wait();
    EXPECT_EQ(*values, Floats(100, 1.0F));
    EXPECT_EQ(*other, Floats(100, 1.0F));
  });
}

TEST_P(Communicators, GatherTextsOfAnyLength) {
  in_group(3, [](Communicator& group) {
    const auto text_of = [](int rank) {
      return std::string(static_cast<size_t>(rank) * 1000, 'x');
    };
    const auto texts = group.gather_texts(text_of(group.rank()));
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(texts[static_cast<size_t>(rank)], text_of(rank));
  });
}

TEST_P(Communicators, SplitIntoGroupsThatWorkSideBySide) {
  in_group(5, [](Communicator& group) {
    const int color = group.rank() % 2;
    // The other way round: the last rank comes first.
    const auto part = group.split(color, -group.rank());
    EXPECT_EQ(part->world_size(), color == 0 ? 3 : 2);
    EXPECT_STREQ(part->transport().name(), group.transport().name());
    if (group.rank() == 4) {
      EXPECT_EQ(part->rank(), 0);
    }
    for (int i = 0; i < 10; ++i) {
      Floats values(100, static_cast<float>(group.rank()));
      part->all_reduce(buffer_of(values));
      EXPECT_EQ(values[99], color == 0 ? 6.0F : 4.0F);
    }
    group.barrier();
  });
}

TEST_P(Communicators, SplitIntoRanksAlone) {
  in_group(4, [](Communicator& group) {
    const auto alone = group.split(group.rank(), 0);
    EXPECT_EQ(alone->world_size(), 1);
    Floats values(100, 2.0F);
    alone->all_reduce(buffer_of(values), Operation::mean);
    EXPECT_EQ(values, Floats(100, 2.0F));
    alone->barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Over, Communicators, every_carrier(), name_of_carrier);

}  // namespace
}  // namespace lockstep::collective
