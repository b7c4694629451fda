// Groups over MPI, alone and with shared memory inside of hosts. Runs as every rank of a job of
// three, as mpi_test.cpp does.
#include "collective/communicator.h"

#include <gtest/gtest.h>

#include "collective/benchmark_data.h"
#include "collective/random_shards.h"
#include "transport/engine.h"
#include "transport/hybrid.h"
#include "transport/mpi/entry.h"

namespace lockstep::collective {
namespace {

constexpr int kWorld = 3;

class MpiCommunicator : public ::testing::Test {
 protected:
  // "mpi", or "hybrid_K": the first K ranks pretend to be on one host, the others on another.
  Communicator group_over(const std::string& carrier, Algorithm algorithm) {
    auto transport = transport::mpi::connect(*all_);
    if (carrier != "mpi") {
      const int on_first = std::stoi(carrier.substr(carrier.find('_') + 1));
      transport = transport::connect_hybrid(*all_, std::move(transport),
                                            {.host = all_->rank() < on_first ? "first" : "second"});
    }
    return Communicator(std::move(transport),
                        {.timeout_seconds = 60, .choose = [=](int64_t) { return algorithm; }});
  }

  // Nobody closes a group that others still use.
  void TearDown() override { all_->gather("done"); }

  static const std::vector<std::string>& carriers() {
    static const std::vector<std::string> all = {"mpi", "hybrid_1", "hybrid_2", "hybrid_3"};
    return all;
  }

  std::unique_ptr<transport::Rendezvous> all_ = transport::mpi::rendezvous({.connect_seconds = 30});
};

TEST_F(MpiCommunicator, GivesTheSameBitsForEveryAlgorithmAndNumberOfTerms) {
  for (const std::string& carrier : carriers())
    for (const Algorithm algorithm : planned_algorithms()) {
      if (!algorithm.is_canonical()) continue;
      Communicator group = group_over(carrier, algorithm);
      for (const int64_t shard_count : {3, 8, 13})
        for (const int64_t count : {1, 7, 20'000}) {
          const Shards shards = Shards::even(shard_count, kWorld);
          EXPECT_TRUE(
              same_bits(sum_of_shards(group, shards, count), canonical_sum(0, shard_count, count)))
              << algorithm.name() << " of " << count << " in " << shard_count << " shards over "
              << carrier;
        }
    }
}

TEST_F(MpiCommunicator, ReducesEveryTypeByEveryOperationAndAlgorithm) {
  constexpr int64_t kCount = 777;
  for (const auto& row : algorithms()) {
    const Algorithm algorithm(*row);
    Communicator group = group_over("mpi", algorithm);
    transport::Engine* const engine = group.transport().engine();
    for (const std::string& type_name : type_names())
      for (const std::string& operation_name : operation_names()) {
        const Type type = parse_type(type_name);
        if (algorithm.is_engine() && !engine->supports(type)) continue;
        const Operation operation = parse_operation(operation_name);
        if (!is_reducible(type, operation)) continue;
        std::vector<std::byte> data(kCount * bytes_of(type));
        const Buffer buffer{data.data(), kCount, type};
        fill(buffer, group.rank(), operation);
        group.all_reduce(buffer, operation);
        EXPECT_EQ(count_wrong(Collective::all_reduce, buffer, group.rank(), kWorld, operation), 0)
            << algorithm.name() << ": " << operation_name << " of " << type_name;
      }
  }
}

TEST_F(MpiCommunicator, AddsAlmostTheSameWithItsEngine) {
  Communicator group = group_over("mpi", parse_algorithm("engine"));
  for (const int64_t count : {1, 1000, 300'000}) {
    const Floats expected = canonical_sum(0, kWorld, count);
    const Floats sum = sum_of_shards(group, Shards::even(kWorld, kWorld), count);
    for (size_t i = 0; i < sum.size(); ++i)
      EXPECT_NEAR(sum[i], expected[i], 1.0F) << i;  // of numbers up to a million
  }
}

TEST_F(MpiCommunicator, RunsManyStartedBucketsInOrder) {
  for (const std::string& carrier : carriers())
    for (const Algorithm algorithm :
         {parse_algorithm("butterfly"), parse_algorithm("halving_doubling")}) {
      Communicator group = group_over(carrier, algorithm);
      std::vector<Floats> buckets;
      for (size_t i = 0; i < 30; ++i) buckets.emplace_back(1 + i * 1000, static_cast<float>(i));
      std::vector<Pending> pending;
      for (Floats& bucket : buckets) pending.push_back(group.all_reduce_async(buffer_of(bucket)));
      for (const Pending& each : pending) each.wait();
      for (size_t i = 0; i < 30; ++i)
        EXPECT_EQ(buckets[i], Floats(1 + i * 1000, 3 * static_cast<float>(i))) << carrier;
    }
}

TEST_F(MpiCommunicator, SplitsIntoGroupsThatWorkSideBySide) {
  for (const std::string& carrier : carriers()) {
    Communicator group = group_over(carrier, parse_algorithm("tree"));
    const auto part = group.split(group.rank() == 1 ? 1 : 0, -group.rank());
    EXPECT_EQ(part->world_size(), group.rank() == 1 ? 1 : 2);
    EXPECT_EQ(part->rank(), group.rank() == 0 ? 1 : 0);
    Floats values(100, static_cast<float>(group.rank() + 1));
    part->all_reduce(buffer_of(values));
    EXPECT_EQ(values, Floats(100, group.rank() == 1 ? 2.0F : 4.0F)) << carrier;
    group.barrier();
  }
}

}  // namespace
}  // namespace lockstep::collective
