// What collectives compute in device memory: the same bits as in host memory.
#include <random>

#include "base/range.h"
#include "expect_error.h"
#include "transport/nccl_worlds.h"

namespace lockstep::transport {
namespace {

using collective::Algorithm;

// Finite elements of any size and sign; the last of them is not at the end of a cache line.
Bytes random_elements(Type type, int rank, size_t count = 333) {
  std::mt19937_64 random(static_cast<uint64_t>(rank) * 16 + static_cast<uint64_t>(type));
  const size_t size = bytes_of(type);
  const bool floats =
      type == Type::f32 || type == Type::f64 || type == Type::f16 || type == Type::bf16;
  Bytes bytes(count * size);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(random());
    if (floats && i % size == size - 1) bytes[i] &= std::byte{0xbf};
    if (type == Type::boolean) bytes[i] &= std::byte{1};
  }
  return bytes;
}

struct Reduced {
  Type type;
  Operation operation;
};

std::vector<Reduced> all_reductions() {
  std::vector<Reduced> all;
  for (size_t type = 0; type < type_names().size(); ++type)
    for (size_t operation = 0; operation < operation_names().size(); ++operation)
      if (is_reducible(static_cast<Type>(type), static_cast<Operation>(operation)))
        all.push_back({static_cast<Type>(type), static_cast<Operation>(operation)});
  return all;
}

class NcclBits : public NcclWorlds {
 protected:
  // Runs `host` on host memory and `device` on device memory, and compares what they leave there.
  static void expect_same(NcclRank& rank, const Bytes& start, Type type,
                          const std::function<void(Buffer)>& collective, const std::string& what) {
    Bytes on_host = start;
    collective({on_host.data(), static_cast<int64_t>(start.size() / bytes_of(type)), type});
    const Memory on_device = rank.upload(start);
    collective(NcclRank::buffer(on_device, type));
    EXPECT_TRUE(rank.download(on_device) == on_host) << what << " on rank " << rank.group->rank();
  }

  void expect_same_bits_by(Algorithm algorithm, int world) {
    in_group(world, [&](NcclRank& rank) {
      rank.group->choose([=](int64_t) { return algorithm; });
      for (const auto [type, operation] : all_reductions())
        expect_same(
            rank, random_elements(type, rank.group->rank()), type,
            [&, op = operation](Buffer buffer) { rank.group->all_reduce(buffer, op); },
            fmt::format("{} of {} by {}, {} ranks", name_of(operation), name_of(type),
                        algorithm.name(), world));
    });
  }
};

TEST_F(NcclBits, EveryCanonicalAlgorithmHasThoseOfSharedMemory) {
  for (const auto& row : collective::algorithms())
    for (int world = 1; row->canonical && world <= 5; ++world)
      expect_same_bits_by(Algorithm(*row), world);
}

TEST_F(NcclBits, AreTheSameOverEveryHostTransport) {
  for (const char* const over : {"tcp", "hybrid_1", "hybrid_3"}) {
    carrier = over;
    expect_same_bits_by(collective::parse_algorithm("butterfly"), 4);
  }
}

TEST_F(NcclBits, DoNotDependOnHowManyRanksOwnTheShards) {
  constexpr int kShards = 12;
  std::vector<Bytes> results;
  for (int world = 1; world <= 5; ++world) {
    const auto shards = collective::Shards::even(kShards, world);
    Bytes result;
    in_group(world, [&](NcclRank& rank) {
      rank.group->choose([](int64_t) { return collective::parse_algorithm("halving_doubling"); });
      std::vector<Memory> memory;
      std::vector<Buffer> terms;
      for (const collective::Term& term : shards.terms_of(rank.group->rank())) {
        // The sum of a term's shards is the caller's business: here along the same tree.
        Bytes sum = random_elements(Type::f32, static_cast<int>(term.begin));
        const std::function<Bytes(int64_t, int64_t)> tree = [&](int64_t begin, int64_t end) {
          if (end - begin == 1) return random_elements(Type::f32, static_cast<int>(begin));
          Bytes left = tree(begin, collective::middle(begin, end));
          const Bytes right = tree(collective::middle(begin, end), end);
          collective::combiner(Type::f32, Operation::sum)(left.data(), right.data(), left.size());
          return left;
        };
        memory.push_back(rank.upload(tree(term.begin, term.end)));
        terms.push_back(NcclRank::buffer(memory.back()));
      }
      rank.group->all_reduce(terms, shards, Operation::mean);
      const Bytes mine = rank.download(memory.front());
      if (rank.group->rank() == 0) result = mine;
    });
    results.push_back(result);
    EXPECT_TRUE(result == results.front()) << world << " ranks";
  }
}

TEST_F(NcclBits, OtherCollectivesMoveTheSameBytes) {
  in_group(3, [&](NcclRank& rank) {
    Communicator& group = *rank.group;
    const Bytes start = random_elements(Type::f32, group.rank(), 300);
    const auto check = [&](const std::string& what, const std::function<void(Buffer)>& run) {
      expect_same(rank, start, Type::f32, run, what);
    };
    check("broadcast", [&](Buffer buffer) { group.broadcast(buffer, 1); });
    check("reduce", [&](Buffer buffer) { group.reduce(buffer, 2); });
    check("gather", [&](Buffer buffer) {
      group.gather(buffer, 0);
      // Other ranks' buffers are left as they are: nothing to compare but that.
    });
    check("all_gather", [&](Buffer buffer) { group.all_gather(buffer); });
    check("scatter", [&](Buffer buffer) { group.scatter(buffer, 0); });
    check("exchange", [&](Buffer buffer) {
      Buffer half = buffer;
      half.count = buffer.count / 2;
      Buffer other = half;
      other.data += half.bytes();
      group.exchange(half, (group.rank() + 1) % 3, other, (group.rank() + 2) % 3);
    });
    check("all_to_all", [&](Buffer buffer) {
      Buffer half = buffer;
      half.count = buffer.count / 2;
      Buffer other = half;
      other.data += half.bytes();
      group.all_to_all(half, other);
    });
  });
}

TEST_F(NcclBits, OfTheEngineAreThoseOfNcclsOwnOrder) {
  in_group(3, [&](NcclRank& rank) {
    const std::vector<float> terms = {1e8F, -1e8F, 1.F};  // (1 - 1e8) + 1e8, but 1 + (-1e8 + 1e8)
    const auto by = [&](const char* algorithm) {
      rank.group->choose([=](int64_t) { return collective::parse_algorithm(algorithm); });
      const Memory memory =
          rank.upload(bytes_of_floats({terms[static_cast<size_t>(rank.group->rank())]}));
      rank.group->all_reduce(NcclRank::buffer(memory), Operation::mean);
      return floats_of(rank.download(memory))[0];
    };
    EXPECT_EQ(by("tree"), 1.F / 3);
    EXPECT_EQ(by("engine"), 0.F);
  });
  EXPECT_EQ(nccl.calls_of("ncclAllReduce").size(), 3U);
}

TEST_F(NcclBits, TheEngineRefusesATypeThatNcclDoesNotHave) {
  for (const std::string& error : errors_of_group(2, [&](NcclRank& rank) {
         rank.group->choose([](int64_t) { return collective::parse_algorithm("engine"); });
         const Memory memory = rank.upload(Bytes(8));
         rank.group->all_reduce(NcclRank::buffer(memory, Type::i16));
       }))
    EXPECT_TRUE(has(error, "NCCL has no i16")) << error;
}

TEST_F(NcclBits, HostMemoryGoesOverTheHostsTransport) {
  in_group(2, [&](NcclRank& rank) {
    std::vector<float> values(1000, 1.F);
    rank.group->all_reduce({reinterpret_cast<std::byte*>(values.data()), 1000, Type::f32});
    EXPECT_EQ(values[999], 2.F);
    rank.group->barrier();
    EXPECT_EQ(rank.group->gather_texts("text").size(), 2U);
  });
  EXPECT_TRUE(nccl.calls_of("ncclGroupStart").empty());
}

TEST_F(NcclBits, AGroupThatIsSplitOffReducesOnTheSameDevices) {
  in_group(4, [&](NcclRank& rank) {
    const auto part = rank.group->split(rank.group->rank() % 2, 0);
    const Memory memory =
        rank.upload(bytes_of_floats({static_cast<float>(rank.group->rank()) + 1}));
    part->all_reduce(NcclRank::buffer(memory));
    EXPECT_EQ(floats_of(rank.download(memory))[0], rank.group->rank() % 2 == 0 ? 4.F : 6.F);
    rank.group->barrier();
  });
}

TEST(DeviceBuffers, NeedATransportThatCarriesThem) {
  for (const std::string& error : errors_of_ranks(2, [](Rendezvous& rendezvous) {
         Communicator group(connect_over("shm", rendezvous));
         std::vector<float> values(4);
         group.all_reduce(
             {reinterpret_cast<std::byte*>(values.data()), 4, Type::f32, Place::device});
       }))
    EXPECT_TRUE(has(error, "transport shm carries no device's memory; nccl does")) << error;
}

}  // namespace
}  // namespace lockstep::transport
