// Groups of real processes, of which one is killed, stopped, or leaves.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>

#include "base/clock.h"
#include "child_process.h"
#include "collective/communicator.h"
#include "random_shards.h"
#include "transport/carriers.h"
#include "transport/tcp_worlds.h"

namespace lockstep::collective {
namespace {

// A process per rank. When all are connected, each runs `body`, and says whom it lost, or "done".
class Processes {
 public:
  using Body = std::function<void(Communicator&, const ChildProcess::Say&)>;

  Processes(const std::string& carrier, int world, double silence_seconds, const Body& body) {
    const uint16_t port = net::free_port();
    int gate[2];  // opens when nobody holds its other end any more
    if (pipe(gate) != 0) throw std::runtime_error("no pipe");
    for (int rank = 0; rank < world; ++rank)
      ranks_.push_back(std::make_unique<ChildProcess>([=](const ChildProcess::Say& say) {
        const auto rendezvous =
            net::rendezvous_over_tcp(net::rendezvous_options(rank, world, port));
        Communicator group(transport::connect_over(carrier, *rendezvous, silence_seconds),
                           {.timeout_seconds = 30});
        group.barrier();
        close(gate[1]);  // before anyone can stop this process with the gate in its hands
        say("ready");
        char nothing = 0;
        if (read(gate[0], &nothing, 1) != 0) return;
        try {
          body(group, say);
          say("done");
        } catch (const PeerLost& error) {
          say(fmt::format("lost {}: {}", error.rank(), error.what()));
        }
      }));
    for (const auto& one : ranks_) EXPECT_EQ(one->line(), "ready");
    for (const int end : gate) close(end);
  }

  ChildProcess& operator[](int rank) { return *ranks_[static_cast<size_t>(rank)]; }

  void send_all(int signal) const {
    for (const auto& one : ranks_) one->send(signal);
  }

  void expect_all_name(int lost, const Stopwatch& watch, double within_seconds) {
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      if (rank == lost) continue;
      const std::string line = (*this)[rank].line();
      EXPECT_TRUE(line.starts_with(fmt::format("lost {}: ", lost))) << rank << " said " << line;
      EXPECT_NE(line.find(fmt::format("rank {} (", lost)), std::string::npos) << line;
      EXPECT_NE(line.find(fmt::format("pid {}", (*this)[lost].pid())), std::string::npos) << line;
    }
    EXPECT_LT(watch.seconds(), within_seconds);
  }

 private:
  std::vector<std::unique_ptr<ChildProcess>> ranks_;
};

// Rank `victim` does not take part any more.
Processes::Body all_but(int victim) {
  return [victim](Communicator& group, const ChildProcess::Say&) {
    Floats values(100'000);
    if (group.rank() == victim) pause();
    group.all_reduce(buffer_of(values));
  };
}

// All-reduces for ever; everyone says "going" after the first few.
Processes::Body reduces_without_end(size_t count) {
  return [count](Communicator& group, const ChildProcess::Say& say) {
    const auto memory = group.allocate(count * 4);
    const Buffer bucket{memory.data.get(), static_cast<int64_t>(count), Type::f32};
    for (int i = 0;; ++i) {
      group.all_reduce(bucket);
      if (i == 2) say("going");
    }
  };
}

class Faults : public ::testing::TestWithParam<std::string> {
 protected:
  // Memory without a name: there is nothing to be left.
  void TearDown() override {
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      EXPECT_EQ(entry.path().string().find("lockstep"), std::string::npos) << entry.path();
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
  }

  static constexpr int kWorld = 4;
};

TEST_P(Faults, AKilledRankIsNamedByAllWaitingRanksWithinASecond) {
  for (const int victim : {0, 1, 3}) {
    Processes ranks(GetParam(), kWorld, 10, all_but(victim));
    const Stopwatch watch;
    ranks[victim].send(SIGKILL);
    ranks.expect_all_name(victim, watch, 1);
  }
}

TEST_P(Faults, ARankThatIsKilledWhileAllAreBusyIsNamedWithinASecond) {
  // Through mailboxes or in one message; in place or in slices, for longer than a look around.
  for (const size_t count : {size_t{4}, size_t{4} << 20}) {
    Processes ranks(GetParam(), kWorld, 10, reduces_without_end(count));
    for (int rank = 0; rank < kWorld; ++rank) EXPECT_EQ(ranks[rank].line(), "going");
    const Stopwatch watch;
    ranks[2].send(SIGKILL);
    ranks.expect_all_name(2, watch, 1);
  }
}

TEST_P(Faults, ARankThatIsKilledWhileTheOtherSpinsIsNamedWithinASecond) {
  Processes ranks(GetParam(), 2, 10, reduces_without_end(1));
  for (const int rank : {0, 1}) EXPECT_EQ(ranks[rank].line(), "going");
  const Stopwatch watch;
  ranks[1].send(SIGKILL);
  ranks.expect_all_name(1, watch, 1);
}

TEST_P(Faults, ARankThatIsKilledWhileBucketsAreReducedIsNamedByEachOfThem) {
  Processes ranks(GetParam(), 2, 10, [](Communicator& group, const ChildProcess::Say& say) {
    std::vector<Floats> buckets(5, Floats(100'000));
    std::vector<Pending> pending;
    if (group.rank() == 1) pause();
    for (Floats& bucket : buckets) pending.push_back(group.all_reduce_async(buffer_of(bucket)));
    for (const Pending& each : pending) try {
        each.wait();
      } catch (const PeerLost& error) {
        say(fmt::format("lost {}", error.rank()));
      }
  });
  ranks[1].send(SIGKILL);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ranks[0].line(), "lost 1");
}

TEST_P(Faults, AStoppedRankIsNamedAfterTheHeartbeatTimeout) {
  for (const int victim : {0, 3}) {
    Processes ranks(GetParam(), kWorld, 1, all_but(victim));
    const Stopwatch watch;
    ranks[victim].send(SIGSTOP);
    ranks.expect_all_name(victim, watch, 3);
    EXPECT_GT(watch.seconds(), 0.7);
  }
}

TEST_P(Faults, ARankThatIsStoppedWhileAllAreBusyIsNamedAfterTheHeartbeatTimeout) {
  Processes ranks(GetParam(), kWorld, 1, reduces_without_end(1 << 20));
  for (int rank = 0; rank < kWorld; ++rank) EXPECT_EQ(ranks[rank].line(), "going");
  const Stopwatch watch;
  ranks[1].send(SIGSTOP);
  ranks.expect_all_name(1, watch, 3);
}

TEST_P(Faults, ARankThatEndsEarlyIsNamedByTheRanksThatWaitForIt) {
  Processes ranks(GetParam(), kWorld, 10, [](Communicator& group, const ChildProcess::Say&) {
    Floats values(100'000);
    if (group.rank() != 1) group.all_reduce(buffer_of(values));
  });
  const Stopwatch watch;
  EXPECT_EQ(ranks[1].line(), "done");
  ranks.expect_all_name(1, watch, 1);
}

TEST_P(Faults, ARankThatExitsWithoutClosingItsGroupIsNamedWithinASecond) {
  Processes ranks(GetParam(), kWorld, 10, [](Communicator& group, const ChildProcess::Say&) {
    Floats values(100'000);
    if (group.rank() == 3) syscall(SYS_exit_group, 0);  // _exit has sanitizers look around
    group.all_reduce(buffer_of(values));
  });
  ranks.expect_all_name(3, Stopwatch(), 1);
}

TEST_P(Faults, TheReasonOfAnAbortReachesAllRanks) {
  Processes ranks(GetParam(), kWorld, 10, [](Communicator& group, const ChildProcess::Say&) {
    Floats values(100'000);
    if (group.rank() == 2) group.abort("the disk is full");
    group.all_reduce(buffer_of(values));
  });
  for (const int rank : {0, 1, 3}) {
    const std::string line = ranks[rank].line();
    EXPECT_TRUE(line.starts_with("lost 2: ")) << line;
    EXPECT_NE(line.find("the disk is full"), std::string::npos) << line;
  }
}

std::atomic<int> told_to_end = 0;  // by a signal, in any thread

TEST_P(Faults, AJobThatIsStoppedAndContinuedAsAWholeLosesNoRank) {
  Processes ranks(GetParam(), kWorld, 0.5, [](Communicator& group, const ChildProcess::Say& say) {
    std::signal(SIGUSR1, [](int) { told_to_end = 1; });
    say("listening");
    for (Floats end(1); end[0] == 0;) {
      end[0] = static_cast<float>(told_to_end.load());
      group.all_reduce(buffer_of(end), Operation::max);
    }
  });
  for (int rank = 0; rank < kWorld; ++rank) EXPECT_EQ(ranks[rank].line(), "listening");
  for (int again = 0; again < 2; ++again) {
    ranks.send_all(SIGSTOP);
    // Not to wait for anything: it is the time that the job is stopped for.
    usleep(1'200'000);
    ranks.send_all(SIGCONT);
  }
  ranks[0].send(SIGUSR1);
  for (int rank = 0; rank < kWorld; ++rank) EXPECT_EQ(ranks[rank].line(), "done");
}

INSTANTIATE_TEST_SUITE_P(Over, Faults, ::testing::Values("shm", "tcp", "hybrid_2"),
                         [](const auto& over) { return over.param; });

}  // namespace
}  // namespace lockstep::collective
