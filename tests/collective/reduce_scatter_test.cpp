// Reduce-scatter of shards, and the all-gather that makes it an all-reduce, over every carrier.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/range.h"
#include "collective/benchmark_data.h"
#include "communicators.h"
#include "expect_error.h"
#include "random_shards.h"

namespace lockstep::collective {
namespace {

class ReduceScatterOver : public Communicators {};

// A rank's terms, in memory of its own or of the transport.
struct OwnTerms {
  OwnTerms(Communicator& group, const Shards& shards, int64_t count) {
    for (const Term& term : shards.terms_of(group.rank()))
      sums.push_back(canonical_sum(term.begin, term.end, count));
    for (Floats& sum : sums) buffers.push_back(buffer_of(sum));
  }
  void move_to_transport(Communicator& group) {
    for (Buffer& buffer : buffers) {
      memory.push_back(group.allocate(buffer.bytes()));
      if (buffer.count > 0) std::memcpy(memory.back().data.get(), buffer.data, buffer.bytes());
      buffer.data = memory.back().data.get();
    }
  }

  std::vector<Floats> sums;
  std::vector<transport::Memory> memory;
  std::vector<Buffer> buffers;
};

Floats elements(const Buffer& buffer, Range range) {
  const auto* const data = reinterpret_cast<const float*>(buffer.data);
  return {data + range.begin, data + range.end};
}

Floats part_of(const Floats& values, Range range) {
  return {values.begin() + range.begin, values.begin() + range.end};
}

void expect_canonical(Communicator& group, const Shards& shards, int64_t count) {
  const Range own = slice(count, group.world_size(), group.rank());
  const Floats expected = canonical_sum(0, shards.count(), count);
  for (const bool in_transport : {false, true}) {
    OwnTerms terms(group, shards, count);
    if (in_transport) terms.move_to_transport(group);
    group.reduce_scatter(terms.buffers, shards, Operation::sum);
    EXPECT_TRUE(same_bits(elements(terms.buffers[0], own), part_of(expected, own)))
        << "slice of " << count << " on rank " << group.rank() << " of " << group.world_size();
    group.all_gather_async(terms.buffers[0]).wait();
    EXPECT_TRUE(same_bits(elements(terms.buffers[0], {0, count}), expected))
        << count << " gathered on rank " << group.rank() << " of " << group.world_size();
  }
}

TEST_P(ReduceScatterOver, GivesTheBitsOfTheAllReduceForEveryWorldAndNumberOfTerms) {
  for (const int world : {1, 2, 3, 4, 5, 8})
    in_group(world, [&](Communicator& group) {
      for (const int64_t shards : {8, 13})
        for (const int64_t count : {0, 1, 7, 300, 5003})
          expect_canonical(group, Shards::even(shards, world), count);
    });
}

TEST_P(ReduceScatterOver, GivesTheSameBitsWhereRanksOwnDifferentNumbersOfShards) {
  const Shards shards({0, 1, 6, 7, 11, 13});
  in_group(5, [&](Communicator& group) { expect_canonical(group, shards, 3000); });
}

TEST_P(ReduceScatterOver, ReducesEveryTypeByEveryOperation) {
  for (const int world : {2, 3})
    in_group(world, [&](Communicator& group) {
      for (const int64_t count : {13, 7777})
        for (const std::string& type_name : type_names())
          for (const std::string& operation_name : operation_names()) {
            const Operation operation = parse_operation(operation_name);
            const Type type = parse_type(type_name);
            if (!is_reducible(type, operation)) continue;
            std::vector<std::byte> data(static_cast<size_t>(count) * bytes_of(type));
            const Buffer buffer{data.data(), count, type};
            fill(buffer, group.rank(), operation);
            group.reduce_scatter({&buffer, 1}, Shards::even(world, world), operation);
            EXPECT_EQ(
                count_wrong(Collective::reduce_scatter, buffer, group.rank(), world, operation), 0)
                << operation_name << " of " << count << " " << type_name << " on " << world;
          }
    });
}

TEST_P(ReduceScatterOver, DividesAMeanByTheNumberOfShards) {
  in_group(3, [](Communicator& group) {
    const Shards shards = Shards::even(6, 3);
    Floats values(5000, static_cast<float>(6 * group.rank()));
    const Buffer buffer = buffer_of(values);
    group.reduce_scatter({&buffer, 1}, shards, Operation::mean);
    const Range own = slice(5000, 3, group.rank());
    EXPECT_EQ(part_of(values, own), Floats(static_cast<size_t>(own.size()), 3.0F));
  });
}

TEST_P(ReduceScatterOver, SendsHalfOfWhatAnAllReduceSends) {
  for (const std::string algorithm : {"halving_doubling", "direct"})
    in_group(2, always(parse_algorithm(algorithm)), [&](Communicator& group) {
      const Shards shards = Shards::even(2, 2);
      const auto sent_by = [&](const auto& collective) {
        const int64_t before = group.bytes_sent();
        collective();
        return group.bytes_sent() - before;
      };
      Floats values(10000);
      const Buffer buffer = buffer_of(values);
      const int64_t whole =
          sent_by([&] { group.all_reduce({&buffer, 1}, shards, Operation::sum); });
      EXPECT_EQ(whole, 40000) << algorithm;
      EXPECT_EQ(sent_by([&] { group.reduce_scatter({&buffer, 1}, shards, Operation::sum); }),
                whole / 2)
          << algorithm;
      EXPECT_EQ(sent_by([&] { group.all_gather(buffer); }), whole / 2);
    });
}

// As the direct algorithm sends by messages.
TEST(AllReduceInSharedMemory, CountsTermsThatOthersReadAndResultsThatItWritesToThem) {
  const int world = 4;
  const auto errors = transport::errors_of_ranks(world, [&](transport::Rendezvous& rendezvous) {
    Communicator group(transport::connect_over("shm", rendezvous),
                       always(parse_algorithm("direct")));
    const Shards shards = Shards::even(world, world);
    for (const auto& [floats, bytes] :
         {std::pair<size_t, int64_t>{6400, 2 * 3 * 6400}, {8, 3 * 32}}) {
      const int64_t before = group.bytes_sent();
      Floats values(floats);
      const Buffer buffer = buffer_of(values);
      group.all_reduce({&buffer, 1}, shards, Operation::sum);
      EXPECT_EQ(group.bytes_sent() - before, bytes) << floats << " floats";
    }
    rendezvous.gather("");
  });
  EXPECT_EQ(errors, transport::no_errors(world));
}

TEST_P(ReduceScatterOver, RunsInTheOrderInWhichItWasStarted) {
  in_group(3, [](Communicator& group) {
    const Shards shards = Shards::even(3, 3);
    std::vector<Floats> buckets;
    for (size_t i = 0; i < 20; ++i) buckets.emplace_back(1 + i * 100, 0.0F);
    std::vector<Pending> pending;
    for (size_t i = 0; i < buckets.size(); ++i) {
      const Buffer buffer = buffer_of(buckets[i]);
      pending.push_back(group.reduce_scatter_async(
          {&buffer, 1}, shards, Operation::sum, {Cargo::Kind::gradients, static_cast<int>(i)},
          nullptr, [&bucket = buckets[i], i] {
            std::fill(bucket.begin(), bucket.end(), static_cast<float>(i));
          }));
      pending.push_back(group.all_gather_async(buffer));
    }
    for (const Pending& each : pending) each.wait();
    for (size_t i = 0; i < buckets.size(); ++i)
      EXPECT_EQ(buckets[i], Floats(1 + i * 100, 3 * static_cast<float>(i)));
    EXPECT_GT(group.bytes_sent(Cargo::Kind::gradients), 0);
  });
}

TEST_P(ReduceScatterOver, EndsWithWhatItsPreparationThrows) {
  const auto errors = errors_of_group(2, {.timeout_seconds = 20}, [](Communicator& group) {
    Floats values(100);
    const Buffer buffer = buffer_of(values);
    const auto prepare = [rank = group.rank()] {
      if (rank == 1) throw std::runtime_error("the gradient is missing");
    };
    group
        .reduce_scatter_async({&buffer, 1}, Shards::even(2, 2), Operation::sum, {}, nullptr,
                              prepare)
        .wait();
  });
  EXPECT_TRUE(has(errors[1], "the gradient is missing")) << errors[1];
  EXPECT_TRUE(has(errors[0], "the gradient is missing")) << errors[0];
}

TEST_P(ReduceScatterOver, IsFollowedByAnAllGatherThatEndsWithWhatItsPreparationThrows) {
  const auto errors = errors_of_group(2, {.timeout_seconds = 20}, [](Communicator& group) {
    Floats values(100, static_cast<float>(group.rank()));
    const Buffer buffer = buffer_of(values);
    const auto fill_own = [&] { std::ranges::fill(values, 2.0F * (1 + group.rank())); };
    group.all_gather_async(buffer, {Cargo::Kind::parameters, 3}, nullptr, fill_own).wait();
    EXPECT_EQ(values[0], 2);
    EXPECT_EQ(values[99], 4);
    const auto fail = [rank = group.rank()] {
      if (rank == 1) throw std::runtime_error("the share is missing");
    };
    group.all_gather_async(buffer, {Cargo::Kind::parameters, 3}, nullptr, fail).wait();
  });
  EXPECT_TRUE(has(errors[1], "the share is missing")) << errors[1];
  EXPECT_TRUE(has(errors[0], "the share is missing")) << errors[0];
}

TEST_P(ReduceScatterOver, RefusesWrongTermsByItsName) {
  const auto errors = errors_of_group(2, {.timeout_seconds = 20}, [](Communicator& group) {
    Floats values(100);
    const Buffer buffer = buffer_of(values);
    group.reduce_scatter({&buffer, 1}, Shards::even(3, 3), Operation::sum);
  });
  for (const std::string& error : errors)
    EXPECT_TRUE(has(error, "reduce_scatter: the 3 shards are owned by 3 ranks")) << error;
}

TEST_P(ReduceScatterOver, IsToldFromAnAllReduce) {
  const auto errors = errors_of_group(2, {.timeout_seconds = 20}, [](Communicator& group) {
    Floats values(10000);
    const Buffer buffer = buffer_of(values);
    const Shards shards = Shards::even(2, 2);
    if (group.rank() == 0)
      group.reduce_scatter({&buffer, 1}, shards, Operation::sum);
    else
      group.all_reduce({&buffer, 1}, shards, Operation::sum);
  });
  EXPECT_TRUE(has(errors[0] + errors[1], "reduce_scatter number 1")) << errors[0];
  EXPECT_TRUE(has(errors[0] + errors[1], "all_reduce number 1")) << errors[0];
}

INSTANTIATE_TEST_SUITE_P(, ReduceScatterOver, every_carrier(), name_of_carrier);

}  // namespace
}  // namespace lockstep::collective
