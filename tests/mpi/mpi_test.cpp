// Runs as every rank of a job of three: all ranks go through the same tests in the same order, and
// each looks at what it got itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>

#include "collective/communicator.h"
#include "collective/fold/fold.h"
#include "expect_error.h"
#include "transport/engine.h"
#include "transport/mpi/entry.h"
#include "transport/shm/shm.h"

namespace lockstep::transport {
namespace {

using Floats = std::vector<float>;

constexpr Label kLabel{{1, 2, 3, 4, 5}};

std::byte* bytes(Floats& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

Deadline soon() {
  return Deadline::in(30);
}

class Mpi : public testing::Test {
 protected:
  std::unique_ptr<Transport> among(std::vector<int> members) {
    GroupRendezvous group(*all_, std::move(members));
    return mpi::connect(group);
  }

  // In every test anew: what failed before does not matter.
  std::unique_ptr<Rendezvous> all_ = mpi::rendezvous({.connect_seconds = 30});
  std::unique_ptr<Transport> transport_ = mpi::connect(*all_);
  int rank_ = all_->rank();
};

TEST_F(Mpi, GathersTextsOfAllSizes) {
  for (const size_t size : {0, 1, 5000, 2'000'000}) {
    const auto texts = all_->gather(std::string(size + static_cast<size_t>(rank_), 'a' + rank_));
    ASSERT_EQ(texts.size(), 3U);
    for (int peer = 0; peer < 3; ++peer)
      EXPECT_EQ(texts[peer], std::string(size + static_cast<size_t>(peer), 'a' + peer));
  }
}

TEST_F(Mpi, KnowsItsPeers) {
  EXPECT_STREQ(transport_->name(), "mpi");
  EXPECT_TRUE(mpi_is_built());
  ASSERT_EQ(transport_->world_size(), 3);
  EXPECT_EQ(transport_->peers()[rank_].pid, getpid());
  for (int peer = 0; peer < 3; ++peer) EXPECT_EQ(transport_->peers()[peer].rank, peer);
}

TEST_F(Mpi, CarriesMessagesOfManySizesInARing) {
  for (const size_t count : {0, 1, 100, 1007, 1008, 1009, 131'072, 131'073, 3'000'001}) {
    Floats mine(count);
    std::iota(mine.begin(), mine.end(), static_cast<float>(rank_));
    Floats got(count, -1);
    const int left = (rank_ + 2) % 3;
    const Outgoing out{(rank_ + 1) % 3, bytes(mine), count * 4};
    const Incoming in{left, bytes(got), count * 4};
    transport_->exchange(kLabel, {&out, 1}, {&in, 1}, soon());
    Floats expected(count);
    std::iota(expected.begin(), expected.end(), static_cast<float>(left));
    EXPECT_EQ(got, expected) << count;
  }
}

TEST_F(Mpi, CombinesWhatArrives) {
  for (const size_t count : {1, 1000, 500'000}) {
    Floats mine(count, static_cast<float>(rank_ + 1));
    Floats sum = mine;
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    for (int peer = 0; peer < 3; ++peer) {
      if (peer == rank_) continue;
      out.push_back({peer, bytes(mine), count * 4});
      in.push_back({peer, bytes(sum), count * 4, collective::combiner(Type::f32, Operation::sum)});
    }
    transport_->exchange(kLabel, out, in, soon());
    EXPECT_EQ(sum, Floats(count, 6)) << count;
  }
}

TEST_F(Mpi, KeepsSeveralMessagesBetweenTwoRanksInOrder) {
  constexpr size_t kCount = 400'000;
  std::vector<Floats> mine;
  std::vector<Floats> got(4, Floats(kCount));
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (int k = 0; k < 4; ++k) mine.emplace_back(kCount, static_cast<float>(10 * rank_ + k));
  for (int k = 0; k < 4; ++k) {
    const size_t size = k % 2 == 0 ? kCount * 4 : 40;
    out.push_back({(rank_ + 1) % 3, bytes(mine[k]), size});
    in.push_back({(rank_ + 2) % 3, bytes(got[k]), size});
  }
  transport_->exchange(kLabel, out, in, soon());
  for (int k = 0; k < 4; ++k) {
    const auto expected = static_cast<float>(10 * ((rank_ + 2) % 3) + k);
    EXPECT_EQ(got[k][9], expected);
    EXPECT_EQ(got[k].back(), k % 2 == 0 ? expected : 0);
  }
}

TEST_F(Mpi, ConnectsSomeOfTheRanksInAnotherOrder) {
  const auto part = among(rank_ == 1 ? std::vector{1} : std::vector{2, 0});
  EXPECT_EQ(part->world_size(), rank_ == 1 ? 1 : 2);
  EXPECT_EQ(part->rank(), rank_ == 0 ? 1 : 0);
  EXPECT_EQ(part->peers()[part->rank()].rank, rank_);
  if (rank_ == 1) return;
  Floats mine(10, static_cast<float>(rank_));
  Floats got(10);
  const Outgoing out{1 - part->rank(), bytes(mine), 40};
  const Incoming in{1 - part->rank(), bytes(got), 40};
  part->exchange(kLabel, {&out, 1}, {&in, 1}, soon());
  EXPECT_EQ(got, Floats(10, static_cast<float>(2 - rank_)));
}

TEST_F(Mpi, SetsUpSharedMemoryBetweenItsRanks) {
  const auto shm = connect_shm(*all_);
  Floats mine(100, static_cast<float>(rank_));
  Floats got(100);
  const Outgoing out{(rank_ + 1) % 3, bytes(mine), 400};
  const Incoming in{(rank_ + 2) % 3, bytes(got), 400};
  shm->exchange(kLabel, {&out, 1}, {&in, 1}, soon());
  EXPECT_EQ(got[99], static_cast<float>((rank_ + 2) % 3));
  all_->gather("done");
}

TEST_F(Mpi, ReducesWithItsOwnEngine) {
  Engine* const engine = transport_->engine();
  ASSERT_NE(engine, nullptr);
  for (const size_t count : {1, 1000, 300'000}) {
    Floats values(count, static_cast<float>(rank_ + 1));
    engine->all_reduce(bytes(values), static_cast<int64_t>(count), Type::f32, Operation::sum,
                       soon());
    EXPECT_EQ(values, Floats(count, 6));
  }
  int64_t largest = 10 - rank_;
  engine->all_reduce(reinterpret_cast<std::byte*>(&largest), 1, Type::i64, Operation::max, soon());
  EXPECT_EQ(largest, 10);
}

TEST_F(Mpi, RefusesAnEngineForTypesThatMpiLacks) {
  EXPECT_FALSE(transport_->engine()->supports(Type::bf16));
  expect_bad_input(
      [&] { transport_->engine()->all_reduce(nullptr, 0, Type::bf16, Operation::sum, soon()); },
      {"MPI has no bf16"});
}

// After these Lockstep leaves out MPI_Finalize, and launchers take that for a failure.
class MpiFailure : public Mpi {};

TEST_F(MpiFailure, FindsOutThatRanksDisagree) {
  // Rank 1 sends what rank 0 does not expect: another size, small and large; another label.
  for (const size_t sent : {10, 300'000})
    for (const bool other_label : {false, true}) {
      const auto pair = among(rank_ == 2 ? std::vector{2} : std::vector{0, 1});
      Floats values(sent);
      const Label label = other_label ? Label{{1, 2, 9, 4, 5}} : kLabel;
      if (rank_ == 1) {
        const Outgoing out{0, bytes(values), sent * 4};
        try {  // a large message is never taken
          pair->exchange(label, {&out, 1}, {}, Deadline::in(0.2));
        } catch (const Timeout&) {
        }
      } else if (rank_ == 0) {
        Floats got(sent + 1);
        const Incoming in{1, bytes(got), other_label ? sent * 4 : sent * 4 + 4};
        try {
          pair->exchange(kLabel, {}, {&in, 1}, soon());
          ADD_FAILURE() << "nothing was thrown";
        } catch (const Disagreement& error) {
          EXPECT_EQ(error.peer, 1);
          EXPECT_EQ(error.theirs, label);
          EXPECT_EQ(error.bytes, sent * 4);
        }
      }
    }
  all_->gather("done");
}

TEST_F(MpiFailure, NamesTheRankThatDoesNotCome) {
  if (rank_ == 0) {
    Floats got(10);
    const Incoming in{2, bytes(got), 40};
    try {
      transport_->exchange(kLabel, {}, {&in, 1}, Deadline::in(0.2));
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Timeout& error) {
      EXPECT_EQ(error.ranks(), std::vector{2});
      EXPECT_NE(std::string(error.what()).find("timed out waiting for rank 2 ("),
                std::string::npos);
    }
    const auto again = [&] { transport_->exchange(kLabel, {}, {}, soon()); };
    EXPECT_NE(message_of<Error>(again).find("an earlier exchange failed"), std::string::npos);
  }
  all_->gather("done");
}

TEST_F(MpiFailure, EndsAnEngineThatOneRankDoesNotJoin) {
  const auto pair = among(rank_ == 2 ? std::vector{2} : std::vector{0, 1});
  Floats values(10);
  const auto reduce = [&] {
    pair->engine()->all_reduce(bytes(values), 10, Type::f32, Operation::sum, Deadline::in(0.2));
  };
  if (rank_ == 0) {
    EXPECT_NE(message_of<Timeout>(reduce).find("ranks 1 did"), std::string::npos);
  }
  all_->gather("done");
}

}  // namespace
}  // namespace lockstep::transport

namespace {

// What ends a whole job, and is watched from outside.
int end_badly(const std::string& mode) {
  using namespace lockstep;
  try {
    const auto all = transport::mpi::rendezvous();
    auto transport = transport::mpi::connect(*all);
    if (mode == "abort" && all->rank() == 1) transport->abort("the disk is full");
    if (mode == "abort") all->gather("never");
    if (mode == "mismatch") {
      std::vector<float> values(all->rank() == 1 ? 1001 : 1000);
      collective::Communicator group(std::move(transport));
      group.all_reduce({reinterpret_cast<std::byte*>(values.data()),
                        static_cast<int64_t>(values.size()), Type::f32});
    }
    if (mode == "roots") {
      std::vector<float> values(1000);
      const int root = (all->rank() + 1) % all->world_size();
      collective::Communicator group(std::move(transport));
      group.broadcast({reinterpret_cast<std::byte*>(values.data()), 1000, Type::f32}, root);
    }
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}

// The launcher's exit code does not tell whether tests of failures passed: rank 0's last line does.
int report_for_all_ranks(int failed) {
  const auto all = lockstep::transport::mpi::rendezvous({.connect_seconds = 30});
  const auto results = all->gather(failed == 0 ? "passed" : "failed");
  const auto passed = std::count(results.begin(), results.end(), "passed");
  if (all->rank() == 0)
    std::printf("%d tests passed on %d of %d ranks\n",
                testing::UnitTest::GetInstance()->successful_test_count(), static_cast<int>(passed),
                all->world_size());
  std::fflush(stdout);
  all->gather("printed");  // the first rank that ends makes the launcher end the others
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  for (const char* const one : {"abort", "mismatch", "roots", "world"})
    if (mode == one) return end_badly(mode);
  testing::InitGoogleTest(&argc, argv);
  return report_for_all_ranks(RUN_ALL_TESTS());
}
