#include "collective/communicator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "collective/order.h"
#include "collective/reduce.h"
#include "collective/slice.h"
#include "transport/ranks.h"
#include "transport/shm.h"

namespace lockstep::collective {
namespace {

using transport::errors_of_ranks;
using transport::no_errors;
using transport::Rendezvous;
using Floats = std::vector<float>;

Buffer buffer_of(Floats& values) {
  return {reinterpret_cast<std::byte*>(values.data()), static_cast<int64_t>(values.size()),
          Type::f32};
}

Floats random_floats(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 1);
  Floats values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random) * static_cast<float>(1 << random() % 20);
  return values;
}

// The canonical sum over shards begin .. end-1, of which shard i is random_floats(count, i).
Floats canonical_sum(int64_t begin, int64_t end, int64_t count) {
  if (end - begin == 1) return random_floats(count, static_cast<uint64_t>(begin));
  const int64_t half = middle(begin, end);
  Floats left = canonical_sum(begin, half, count);
  const Floats right = canonical_sum(half, end, count);
  for (size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}

class Communicators : public ::testing::TestWithParam<std::string> {
 protected:
  static std::unique_ptr<Communicator> connect(Rendezvous& rendezvous,
                                               CommunicatorOptions options = {}) {
    options.timeout_seconds = 20;
    return std::make_unique<Communicator>(connect_transport(rendezvous), std::move(options));
  }

  static std::unique_ptr<transport::Transport> connect_transport(Rendezvous& rendezvous) {
    return transport::connect_shm(rendezvous);
  }
};

CommunicatorOptions always(Algorithm algorithm) {
  return {.choose = [algorithm](int64_t) { return algorithm; }};
}

TEST_P(Communicators, GiveTheSameBitsForEveryAlgorithmWorldAndNumberOfTerms) {
  constexpr int64_t kShards = 8;
  for (const int64_t count : {int64_t{1}, int64_t{7}, int64_t{5000}}) {
    const Floats expected = canonical_sum(0, kShards, count);
    for (const std::string& name : algorithm_names()) {
      const Algorithm algorithm = parse_algorithm(name);
      if (!is_canonical(algorithm)) continue;
      for (const int world : {1, 2, 3, 5, 8}) {
        SCOPED_TRACE(name + " on " + std::to_string(world));
        const Shards shards = Shards::even(kShards, world);
        const auto errors = errors_of_ranks(world, [&](Rendezvous& rendezvous) {
          const auto group = connect(rendezvous, always(algorithm));
          std::vector<Floats> sums;
          for (const Term& term : shards.terms_of(group->rank()))
            sums.push_back(canonical_sum(term.begin, term.end, count));
          std::vector<Buffer> terms;
          for (Floats& sum : sums) terms.push_back(buffer_of(sum));
          group->all_reduce(terms, shards, Operation::sum);
          EXPECT_EQ(std::memcmp(sums[0].data(), expected.data(), expected.size() * 4), 0);
        });
        EXPECT_EQ(errors, no_errors(world));
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(Communicators, AddWhatIsInSharedMemoryInPlace) {
  constexpr int64_t kCount = 100'000;
  const Floats expected = canonical_sum(0, 3, kCount);
  EXPECT_EQ(errors_of_ranks(
                3,
                [&](Rendezvous& rendezvous) {
                  const auto group = connect(rendezvous);
                  const auto memory = group->allocate(kCount * 4);
                  const Floats mine = random_floats(kCount, static_cast<uint64_t>(group->rank()));
                  std::memcpy(memory.data.get(), mine.data(), kCount * 4);
                  group->all_reduce({memory.data.get(), kCount, Type::f32});
                  EXPECT_EQ(std::memcmp(memory.data.get(), expected.data(), kCount * 4), 0);
                }),
            no_errors(3));
}

TEST_P(Communicators, HaveManyBucketsUnderWayAndKeepTheirOrder) {
  EXPECT_EQ(errors_of_ranks(2,
                            [&](Rendezvous& rendezvous) {
                              const auto group = connect(rendezvous);
                              std::vector<Floats> buckets;
                              for (size_t i = 0; i < 50; ++i)
                                buckets.emplace_back(1 + i * 100, static_cast<float>(i));
                              std::vector<Pending> pending;
                              for (Floats& bucket : buckets)
                                pending.push_back(group->all_reduce_async(buffer_of(bucket)));
                              Floats last(3, 1.0F);
                              group->all_reduce(buffer_of(last));
                              EXPECT_EQ(last, Floats(3, 2.0F));
                              for (const Pending& each : pending) {
                                EXPECT_TRUE(each.done());
                                each.wait();
                              }
                              for (size_t i = 0; i < 50; ++i)
                                EXPECT_EQ(buckets[i].back(), 2 * static_cast<float>(i));
                            }),
            no_errors(2));
}

TEST_P(Communicators, DivideAMeanOnce) {
  for (const std::string& name : algorithm_names())
    EXPECT_EQ(errors_of_ranks(3,
                              [&](Rendezvous& rendezvous) {
                                const auto group =
                                    connect(rendezvous, always(parse_algorithm(name)));
                                Floats values(1000, static_cast<float>(3 * group->rank()));
                                group->all_reduce(buffer_of(values), Operation::mean);
                                EXPECT_EQ(values, Floats(1000, 3.0F)) << name;
                              }),
              no_errors(3));
}

TEST_P(Communicators, DoTheOtherCollectives) {
  constexpr int kWorld = 3;
  constexpr int64_t kCount = 1000;
  EXPECT_EQ(errors_of_ranks(kWorld,
                            [&](Rendezvous& rendezvous) {
                              const auto group = connect(rendezvous);
                              const int rank = group->rank();
                              const auto mine = static_cast<float>(rank);
                              const Range own = slice(kCount, kWorld, rank);
                              const auto own_begin = static_cast<size_t>(own.begin);
                              const auto own_size = static_cast<size_t>(own.size());
                              const auto owner = [&](size_t i) {
                                int found = 0;
                                while (slice(kCount, kWorld, found).end <= static_cast<int64_t>(i))
                                  ++found;
                                return static_cast<float>(found);
                              };

                              Floats values(kCount, mine);
                              group->broadcast(buffer_of(values), 2);
                              EXPECT_EQ(values, Floats(kCount, 2.0F));

                              values.assign(kCount, mine);
                              group->reduce(buffer_of(values), 1, Operation::max);
                              if (rank == 1) {
                                EXPECT_EQ(values, Floats(kCount, 2.0F));
                              }

                              values.assign(kCount, -1.0F);
                              std::fill_n(values.begin() + own.begin, own_size, mine);
                              group->all_gather(buffer_of(values));
                              for (size_t i = 0; i < values.size(); ++i)
                                EXPECT_EQ(values[i], owner(i));

                              values.assign(kCount, mine + 1);
                              group->reduce_scatter(buffer_of(values));
                              EXPECT_EQ(values[own_begin], 6.0F);
                              EXPECT_EQ(values[own_begin + own_size - 1], 6.0F);

                              values.assign(kCount, mine);
                              group->gather(buffer_of(values), 0);
                              if (rank == 0)
                                for (size_t i = 0; i < values.size(); ++i)
                                  EXPECT_EQ(values[i], owner(i));

                              if (rank == 2) std::iota(values.begin(), values.end(), 0.0F);
                              group->scatter(buffer_of(values), 2);
                              EXPECT_EQ(values[own_begin], static_cast<float>(own_begin));

                              group->barrier();
                              values.assign(kCount, mine);
                              if (rank == 0) group->send(buffer_of(values), 2);
                              if (rank == 2) group->receive(buffer_of(values), 0);
                              if (rank == 2) {
                                EXPECT_EQ(values, Floats(kCount, 0.0F));
                              }
                              group->barrier();
                            }),
            no_errors(kWorld));
}

TEST_P(Communicators, TellEachOtherTextsOfAnyLength) {
  EXPECT_EQ(errors_of_ranks(3,
                            [&](Rendezvous& rendezvous) {
                              const auto group = connect(rendezvous);
                              const auto text_of = [](int rank) {
                                return std::string(static_cast<size_t>(rank) * 1000, 'x');
                              };
                              const auto texts = group->gather_texts(text_of(group->rank()));
                              for (int rank = 0; rank < 3; ++rank)
                                EXPECT_EQ(texts[static_cast<size_t>(rank)], text_of(rank));
                            }),
            no_errors(3));
}

TEST_P(Communicators, SplitIntoGroupsThatWorkSideBySide) {
  EXPECT_EQ(errors_of_ranks(5,
                            [&](Rendezvous& rendezvous) {
                              const auto group = connect(rendezvous);
                              const int color = group->rank() % 2;
                              // The other way round: the last rank comes first.
                              const auto part = group->split(color, -group->rank());
                              EXPECT_EQ(part->world(), color == 0 ? 3 : 2);
                              if (group->rank() == 4) {
                                EXPECT_EQ(part->rank(), 0);
                              }
                              for (int i = 0; i < 10; ++i) {
                                Floats values(100, static_cast<float>(group->rank()));
                                part->all_reduce(buffer_of(values));
                                EXPECT_EQ(values[99], color == 0 ? 6.0F : 4.0F);
                              }
                              group->barrier();
                            }),
            no_errors(5));
}

TEST_P(Communicators, TellBothRanksWhatDiffers) {
  const auto errors = errors_of_ranks(2, [&](Rendezvous& rendezvous) {
    const auto group = connect(rendezvous);
    Floats values(group->rank() == 0 ? 1000 : 1001);
    group->all_reduce(buffer_of(values));
  });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("1000 f32"), std::string::npos) << error;
    EXPECT_NE(error.find("1001 f32"), std::string::npos) << error;
  }
}

TEST_P(Communicators, ThrowTheirFirstErrorEverAfter) {
  const auto errors = errors_of_ranks(2, [&](Rendezvous& rendezvous) {
    const auto group = connect(rendezvous);
    if (group->rank() == 0) group->abort("a reason");
    const std::string expected = group->rank() == 0 ? "gave up before" : "a reason";
    Floats values(10);
    for (int i = 0; i < 2; ++i) try {
        group->all_reduce(buffer_of(values));
        ADD_FAILURE() << "it worked";
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
      }
    rendezvous.gather("");
  });
  EXPECT_EQ(errors, no_errors(2));
}

TEST_P(Communicators, RefuseTermsThatAreNotThoseOfTheShards) {
  const auto errors = errors_of_ranks(1, [&](Rendezvous& rendezvous) {
    const auto group = connect(rendezvous);
    const Shards shards = Shards::even(3, 1);
    std::vector<Buffer> terms(5);
    EXPECT_THROW(group->all_reduce(terms, shards, Operation::sum), BadInput);
  });
  EXPECT_EQ(errors, no_errors(1));
}

INSTANTIATE_TEST_SUITE_P(Over, Communicators, ::testing::Values("shm"),
                         [](const auto& over) { return over.param; });

}  // namespace
}  // namespace lockstep::collective
