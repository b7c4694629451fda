// Ranks that fail, hang, disagree or die, and machines without a usable NCCL.
#include "base/clock.h"
#include "child_process.h"
#include "expect_error.h"
#include "transport/nccl_worlds.h"
#include "transport/tcp_worlds.h"
#include "transport/transports.h"

namespace lockstep::transport {
namespace {

class NcclFaults : public NcclWorlds {
 protected:
  static void reduce_some(NcclRank& rank) {
    const Memory bucket = rank.upload(Bytes(4000));
    for (int i = 0; i < 3; ++i) rank.group->all_reduce(NcclRank::buffer(bucket));
  }

  std::vector<std::string> errors_with(Fault fault, const std::string& function, int call,
                                       double timeout_seconds = 20) {
    nccl.fault = fault;
    nccl.fault_rank = 1;
    nccl.fault_function = function;
    nccl.fault_call = call;
    return errors_of_group(3, reduce_some, {.timeout_seconds = timeout_seconds});
  }

  // Rank 1 has NCCL's error, the others are told of it.
  void expect_rank_1_failed(const std::vector<std::string>& errors, const std::string& call) {
    EXPECT_TRUE(has(errors[1], "rank 1 (")) << errors[1];
    EXPECT_TRUE(has(errors[1], call)) << errors[1];
    for (const std::string& error : errors) {
      EXPECT_TRUE(has(error, "rank 1 (")) << error;
      EXPECT_TRUE(has(error, "unhandled cuda error: the stand-in was told to fail")) << error;
    }
    EXPECT_EQ(ranks_that_called("ncclCommAbort"), (std::set<int>{0, 1, 2}));
    EXPECT_EQ(ranks_that_called("ncclCommDestroy"), std::set<int>());
  }
};

TEST_F(NcclFaults, AnErrorThatNcclReportsLaterIsThrownAndAbortsAllRanks) {
  expect_rank_1_failed(errors_with(Fault::async_error, "ncclGroupEnd", 2), "a call that did not");
}

TEST_F(NcclFaults, ARefusedCallIsThrownAndAbortsAllRanks) {
  for (const char* const function : {"ncclGroupEnd", "ncclSend", "ncclRecv"}) {
    SetUp();
    expect_rank_1_failed(errors_with(Fault::refused, function, 1), function);
  }
}

TEST_F(NcclFaults, WorkThatHangsTimesOutWithTheRanksThatAreWaitedFor) {
  nccl.fault_rank = 1;
  const std::vector<std::string> errors = errors_with(Fault::hang, "ncclGroupEnd", 0, 0.3);
  const bool any_timed_out =
      std::any_of(errors.begin(), errors.end(), [](const std::string& error) {
        return has(error, "timed out waiting for rank ") && has(error, "in NCCL, in all_reduce");
      });
  EXPECT_TRUE(any_timed_out) << fmt::format("{}", fmt::join(errors, "\n"));
  for (const std::string& error : errors) EXPECT_FALSE(error.empty());
  EXPECT_EQ(ranks_that_called("ncclCommAbort"), (std::set<int>{0, 1, 2}));
}

TEST_F(NcclFaults, ARankThatDoesNotConnectIsNamed) {
  nccl.fault = Fault::hang;
  nccl.fault_rank = 1;
  nccl.fault_function = "ncclCommInitRankConfig";
  nccl.fault_call = 0;
  for (const std::string& error : errors_of_ranks(2, [&](Rendezvous& rendezvous) {
         const NcclRank rank("shm", rendezvous, nccl, {}, MissingWait::none, 0.3);
       }))
    EXPECT_TRUE(has(error, "while connecting NCCL") || has(error, "closed its transport")) << error;
  EXPECT_EQ(ranks_that_called("ncclCommAbort"), (std::set<int>{0, 1}));
}

TEST_F(NcclFaults, AnErrorWhileConnectingIsThrown) {
  nccl.fault = Fault::refused;
  nccl.fault_rank = 0;
  nccl.fault_call = 0;
  nccl.fault_function = "ncclGetUniqueId";
  for (const std::string& error : errors_of_group(2, reduce_some))
    EXPECT_TRUE(has(error, "ncclGetUniqueId failed on rank 0: unhandled cuda error")) << error;
}

TEST_F(NcclFaults, AbortEndsTheWorkOfAllRanks) {
  const auto errors = errors_of_group(2, [&](NcclRank& rank) {
    const Memory bucket = rank.upload(Bytes(400));
    rank.group->all_reduce(NcclRank::buffer(bucket));
    if (rank.group->rank() == 1) rank.group->abort("the disk is full");
    rank.group->all_reduce(NcclRank::buffer(bucket));
  });
  for (const std::string& error : errors) EXPECT_TRUE(has(error, "the disk is full")) << error;
  EXPECT_EQ(ranks_that_called("ncclCommAbort"), (std::set<int>{0, 1}));
}

TEST_F(NcclFaults, RanksThatCallDifferentCollectivesDisagreeBeforeNcclIsCalled) {
  const auto errors = errors_of_group(2, [&](NcclRank& rank) {
    const Memory bucket = rank.upload(Bytes(rank.group->rank() == 0 ? 400 : 800));
    rank.group->choose([](int64_t) { return collective::parse_algorithm("butterfly"); });
    rank.group->all_reduce(NcclRank::buffer(bucket));
  });
  EXPECT_TRUE(has(errors[0], "ranks disagree") || has(errors[1], "ranks disagree"))
      << errors[0] << errors[1];
  EXPECT_TRUE(nccl.calls_of("ncclSend").empty());
}

TEST_F(NcclFaults, AMissingLibraryIsNamedWithWhatToInstall) {
  const ScopedVariable nowhere("LOCKSTEP_NCCL", "/nowhere/libnccl.so.2");
  for (const std::string& error : errors_of_group(2, reduce_some)) {
    EXPECT_TRUE(has(error, "cannot load /nowhere/libnccl.so.2 (")) << error;
    EXPECT_TRUE(has(error, "install NCCL (Debian: libnccl2), or set LOCKSTEP_NCCL")) << error;
  }
}

TEST_F(NcclFaults, ALibraryThatIsTooOldIsNamedWithItsVersion) {
  nccl.version = 2708;
  for (const std::string& error : errors_of_group(2, reduce_some))
    EXPECT_TRUE(has(error, "is NCCL 2.7.8, which is too old; install NCCL 2.14.3 or later"))
        << error;
}

TEST_F(NcclFaults, ALibraryThatIsNotNcclIsRefused) {
  const ScopedVariable other("LOCKSTEP_NCCL", "libm.so.6");
  for (const std::string& error : errors_of_group(2, reduce_some))
    EXPECT_TRUE(has(error, "libm.so.6 has no function ncclGetVersion")) << error;
}

TEST(NcclRow, ExplainsWhatItNeedsWhereThereIsNoCuda) {
  for (const std::string& error : errors_of_ranks(
           2, [](Rendezvous& rendezvous) { transports().at("nccl").connect(rendezvous, {}); }))
    EXPECT_TRUE(has(error, "there is no CUDA device for it (this build's LibTorch has no CUDA"))
        << error;
}

// A process per rank, of which the last is killed while all reduce without end.
TEST_F(NcclFaults, AKilledRankIsNamedByAllOthers) {
  constexpr int kWorld = 3;
  const uint16_t port = net::free_port();
  std::vector<std::unique_ptr<ChildProcess>> ranks;
  for (int i = 0; i < kWorld; ++i)
    ranks.push_back(std::make_unique<ChildProcess>([&, i](const ChildProcess::Say& say) {
      const auto rendezvous = net::rendezvous_over_tcp(net::rendezvous_options(i, kWorld, port));
      NcclRank rank("shm", *rendezvous, loaded_stand_in(), {.timeout_seconds = 30});
      const Memory bucket = rank.upload(Bytes(400'000));
      try {
        for (int step = 0;; ++step) {
          rank.group->all_reduce(NcclRank::buffer(bucket));
          if (step == 2) say("going");
        }
      } catch (const PeerLost& lost) {
        say(fmt::format("lost {}: {} aborts", lost.rank(),
                        loaded_stand_in().calls_of("ncclCommAbort").size()));
      }
    }));
  for (const auto& rank : ranks) EXPECT_EQ(rank->line(), "going");
  ranks.back()->send(SIGKILL);
  for (int i = 0; i < kWorld - 1; ++i)
    EXPECT_EQ(ranks[static_cast<size_t>(i)]->line(), "lost 2: 1 aborts");
}

}  // namespace
}  // namespace lockstep::transport
