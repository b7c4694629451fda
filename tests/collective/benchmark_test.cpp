#include "collective/benchmark.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/range.h"
#include "collective/benchmark_data.h"
#include "collective/fold/fold.h"
#include "communicators.h"

namespace lockstep::collective {
namespace {

constexpr int64_t kNumbers = 999;

std::vector<Collective> all_collectives() {
  std::vector<Collective> all;
  for (const std::string& name : collective_names()) all.push_back(parse_collective(name));
  return all;
}

void for_each_type_and_operation(const std::function<void(Type, Operation)>& test) {
  for (const std::string& type : type_names())
    for (const std::string& operation : operation_names()) {
      SCOPED_TRACE(operation + " of " + type);
      test(parse_type(type), parse_operation(operation));
    }
}

// A bucket as `fill` leaves it.
struct Bucket {
  Bucket(int rank, int64_t count, Type type, Operation operation)
      : data(static_cast<size_t>(count) * bytes_of(type)), buffer{data.data(), count, type} {
    fill(buffer, rank, operation);
  }

  std::vector<std::byte> data;
  Buffer buffer;
};

void flip(Buffer buffer, int64_t element) {
  buffer.data[static_cast<size_t>(element) * bytes_of(buffer.type)] ^= std::byte{1};
}

// Elements that a rank is given by a collective.
Range given(Collective collective, int rank, int world) {
  switch (collective) {
    case Collective::all_reduce:
    case Collective::broadcast:
    case Collective::all_gather:
    case Collective::all_to_all:
    case Collective::exchange:
      return {0, kNumbers};
    case Collective::reduce:
    case Collective::gather:
      return rank == 0 ? Range{0, kNumbers} : Range{};
    case Collective::reduce_scatter:
    case Collective::scatter:
      return slice(kNumbers, world, rank);
    case Collective::send_receive:
      return rank == 1 ? Range{0, kNumbers} : Range{};
    case Collective::barrier:
      break;
  }
  return {};
}

class Benchmarks : public Communicators {};

TEST_P(Benchmarks, CountNoWrongElementsAfterACollectiveAndEveryFlippedOne) {
  in_group(3, [](Communicator& group) {
    const int rank = group.rank();
    for (const Collective collective : all_collectives())
      for_each_type_and_operation([&](Type type, Operation operation) {
        if (reduces(collective) && !is_reducible(type, operation)) return;
        Bucket bucket(rank, kNumbers, type, operation);
        Bucket second(rank, kNumbers, type, operation);
        const Buffer result = call(group, collective, bucket.buffer, second.buffer, operation);
        const auto wrong = [&] { return count_wrong(collective, result, rank, 3, operation); };
        const auto& name = collective_names()[static_cast<size_t>(collective)];
        EXPECT_EQ(wrong(), 0) << name;
        const Range range = given(collective, rank, 3);
        if (range.size() == 0) return;
        for (const int64_t element : {range.begin, (range.begin + range.end) / 2, range.end - 1})
          flip(result, element);
        EXPECT_EQ(wrong(), 3) << name;
      });
  });
}

TEST_P(Benchmarks, MeasureEveryCollectiveAndFindNothingWrong) {
  in_group(3, [](Communicator& group) {
    for (const Collective collective : all_collectives()) {
      const BenchmarkResult result =
          measure(group, {.collective = collective, .bytes = 4096, .batches = 1});
      const auto& name = collective_names()[static_cast<size_t>(collective)];
      EXPECT_GT(result.seconds, 0) << name;
      EXPECT_LT(result.seconds, 1) << name;
      EXPECT_GT(result.limit_seconds, 0) << name;
      EXPECT_TRUE(std::isfinite(result.limit_seconds)) << name;
      EXPECT_EQ(result.wrong, 0) << name;
    }
  });
}

TEST_P(Benchmarks, MeasureFreshBucketsAndCheckEveryBatch) {
  in_group(2, [](Communicator& group) {
    const BenchmarkResult result = measure(group, {.type = Type::bf16,
                                                   .operation = Operation::mean,
                                                   .bytes = 100'000,
                                                   .batches = 2,
                                                   .fresh = true,
                                                   .check_every_batch = true});
    EXPECT_TRUE(std::isfinite(result.seconds));
    EXPECT_EQ(result.wrong, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Over, Benchmarks, ::testing::Values("shm"), name_of_carrier);

TEST(BenchmarkData, IsNotTheResultBeforeTheCollectiveRan) {
  for (const Collective collective :
       {Collective::all_reduce, Collective::broadcast, Collective::all_gather,
        Collective::reduce_scatter, Collective::scatter, Collective::send_receive}) {
    const Bucket bucket(1, kNumbers, Type::f32, Operation::sum);
    EXPECT_GT(count_wrong(collective, bucket.buffer, 1, 3, Operation::sum), 0)
        << collective_names()[static_cast<size_t>(collective)];
  }
}

// Adds up in the given type one rank after another, as `ring` does.
TEST(BenchmarkData, HasTheResultOfAddingInTheGivenTypeInTheLargestWorld) {
  constexpr int kLargestWorld = 256;
  for_each_type_and_operation([](Type type, Operation operation) {
    if (!is_reducible(type, operation)) return;
    Bucket sum(0, 64, type, operation);
    for (int rank = 1; rank < kLargestWorld; ++rank) {
      const Bucket other(rank, 64, type, operation);
      combiner(type, operation)(sum.data.data(), other.data.data(), sum.data.size());
    }
    if (operation == Operation::mean)
      divider(type)(sum.data.data(), sum.data.size(), kLargestWorld);
    EXPECT_EQ(count_wrong(Collective::all_reduce, sum.buffer, 0, kLargestWorld, operation), 0);
  });
}

TEST(BusFactor, IsThatOfNcclTests) {
  for (const int world : {2, 3, 8}) {
    const double n = world;
    EXPECT_DOUBLE_EQ(bus_factor(Collective::all_reduce, world), 2 * (n - 1) / n);
    for (const Collective collective : {Collective::all_gather, Collective::reduce_scatter,
                                        Collective::gather, Collective::scatter})
      EXPECT_DOUBLE_EQ(bus_factor(collective, world), (n - 1) / n);
    for (const Collective collective :
         {Collective::broadcast, Collective::reduce, Collective::send_receive})
      EXPECT_DOUBLE_EQ(bus_factor(collective, world), 1);
  }
}

}  // namespace
}  // namespace lockstep::collective
