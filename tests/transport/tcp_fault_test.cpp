#include <sys/eventfd.h>
#include <unistd.h>

#include <latch>

#include "base/clock.h"
#include "child_process.h"
#include "expect_error.h"
#include "net/socket.h"
#include "net/tcp_rendezvous.h"
#include "transport/tcp/wire.h"
#include "transport/tcp_worlds.h"

namespace lockstep::transport {
namespace {

// A message from everyone to everyone.
void meet_all(Transport& tcp, double seconds) {
  const auto world = static_cast<size_t>(tcp.world_size());
  std::vector<std::byte> sent(world);
  std::vector<std::byte> received(world);
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (int peer = 0; peer < tcp.world_size(); ++peer) {
    if (peer == tcp.rank()) continue;
    outgoing.push_back({peer, &sent[static_cast<size_t>(peer)], 1});
    incoming.push_back({peer, &received[static_cast<size_t>(peer)], 1});
  }
  tcp.exchange({}, outgoing, incoming, Deadline::in(seconds));
}

void wait_for_word_of(Transport& tcp, int peer, double seconds) {
  std::byte never;
  const Incoming incoming{peer, &never, 1};
  tcp.exchange({}, {}, {&incoming, 1}, Deadline::in(seconds));
}

// Ranks in processes of their own. Each says "ready" once all are connected, runs `body`, and says
// whom it lost, or "done".
class Ranks {
 public:
  Ranks(int world, double silence_seconds, const std::function<void(Transport&)>& body) {
    const uint16_t port = free_port();
    for (int rank = 0; rank < world; ++rank)
      ranks_.push_back(std::make_unique<ChildProcess>([=](const ChildProcess::Say& say) {
        const auto rendezvous = rendezvous_over_tcp(rendezvous_options(rank, world, port));
        const auto tcp =
            connect_tcp(*rendezvous, {.key = "a key", .silence_seconds = silence_seconds});
        meet_all(*tcp, 10);
        say("ready");
        try {
          body(*tcp);
          say("done");
        } catch (const PeerLost& error) {
          say(fmt::format("lost {}: {}", error.rank(), error.what()));
        }
      }));
    for (const auto& one : ranks_) EXPECT_EQ(one->line(), "ready");
  }

  ChildProcess& operator[](int rank) { return *ranks_[static_cast<size_t>(rank)]; }

 private:
  std::vector<std::unique_ptr<ChildProcess>> ranks_;
};

TEST(TcpFaults, AKilledProcessIsNamedOnEveryOtherRankWithinASecond) {
  Ranks ranks(4, 10, [](Transport& tcp) {
    // Nobody waits for rank 2 itself but rank 3: all are told all the same.
    wait_for_word_of(tcp, (tcp.rank() + 3) % 4, 20);
  });
  const Stopwatch watch;
  ranks[2].send(SIGKILL);
  for (const int rank : {0, 1, 3}) {
    const std::string line = ranks[rank].line();
    EXPECT_TRUE(line.starts_with("lost 2: ") && has(line, "rank 2 (")) << line;
    EXPECT_TRUE(has(line, fmt::format("pid {}", ranks[2].pid()))) << line;
  }
  EXPECT_LT(watch.seconds(), 1);
}

TEST(TcpFaults, AKilledProcessIsNoticedInTheMiddleOfALargeMessage) {
  Ranks ranks(2, 10, [](Transport& tcp) {
    // Rank 0 sends more than sockets hold to rank 1, which does not read.
    std::vector<std::byte> large(64 << 20);
    const Outgoing outgoing{1, large.data(), large.size()};
    if (tcp.rank() == 1) pause();
    tcp.exchange({}, {&outgoing, 1}, {}, Deadline::in(20));
  });
  ranks[1].send(SIGKILL);
  const std::string line = ranks[0].line();
  EXPECT_TRUE(line.starts_with("lost 1: ") && has(line, "rank 1 (")) << line;
}

// A worker that is killed at this moment leaves the others waiting for its connections.
TEST(TcpFaults, ConnectingCanBeInterruptedWhileARankDoesNotConnect) {
  const uint16_t port = free_port();
  const int stop = eventfd(0, EFD_CLOEXEC);
  std::latch has_ended(1);
  const auto errors = play(2, [&](int rank) {
    const auto rendezvous = rendezvous_over_tcp(rendezvous_options(rank, 2, port));
    if (rank == 1) {
      // Its endpoint, but never a connection.
      const net::Descriptor listener = net::listen_at("", 0);
      rendezvous->gather(encode(Endpoint{.job_rank = 1, .host = "here", .streams = 1}));
      eventfd_write(stop, 1);
      has_ended.wait();
      return;
    }
    const Stopwatch watch;
    EXPECT_THROW(connect_tcp(*rendezvous, {.key = "a key", .connect_seconds = 60, .stop = stop}),
                 net::Interrupted);
    EXPECT_LT(watch.seconds(), 10);
    has_ended.count_down();
  });
  expect_nothing(errors);
  close(stop);
}

TEST(TcpFaults, AStoppedProcessIsLostAfterItsSilence) {
  Ranks ranks(3, 1, [](Transport& tcp) { wait_for_word_of(tcp, (tcp.rank() + 1) % 3, 20); });
  const Stopwatch watch;
  ranks[1].send(SIGSTOP);
  for (const int rank : {0, 2}) {
    const std::string line = ranks[rank].line();
    EXPECT_TRUE(line.starts_with("lost 1: ") && has(line, "rank 1 (")) << line;
    EXPECT_TRUE(has(line, "sent no heartbeat")) << line;
  }
  EXPECT_GT(watch.seconds(), 0.7);
  EXPECT_LT(watch.seconds(), 3);
}

TEST(TcpFaults, AJobThatIsStoppedAndContinuedAsAWholeBlamesNobody) {
  // Rank 0 goes on when it is told to by this signal, which waits when it comes too early.
  sigset_t go_on;
  sigset_t before;
  sigemptyset(&go_on);
  sigaddset(&go_on, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &go_on, &before);
  Ranks ranks(2, 0.5, [go_on](Transport& tcp) {
    int received = 0;
    if (tcp.rank() == 0) sigwait(&go_on, &received);
    meet_all(tcp, 20);
    meet_all(tcp, 20);
  });
  for (const int rank : {0, 1}) ranks[rank].send(SIGSTOP);
  // Not to wait for anything: it is the time that the job is stopped for.
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  for (const int rank : {0, 1}) ranks[rank].send(SIGCONT);
  ranks[0].send(SIGUSR1);
  for (const int rank : {0, 1}) EXPECT_EQ(ranks[rank].line(), "done");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(TcpFaults, ToFinishFirstIsNoError) {
  std::latch rank_2_is_gone(1);
  const uint16_t port = free_port();
  expect_nothing(play(3, [&](int rank) {
    const auto rendezvous = rendezvous_over_tcp(rendezvous_options(rank, 3, port));
    auto tcp = connect_tcp(*rendezvous, {.key = "a key"});
    std::byte byte[2] = {};
    const Outgoing last{0, byte, 1};
    const Incoming from_2{2, byte, 1};
    if (rank == 2) {
      tcp->exchange({}, {&last, 1}, {}, Deadline::in(10));
      tcp.reset();
      rank_2_is_gone.count_down();
      return;
    }
    rank_2_is_gone.wait();
    const Outgoing out{1 - rank, byte, 1};
    const Incoming in{1 - rank, byte + 1, 1};
    for (int i = 0; i < 100; ++i) tcp->exchange({}, {&out, 1}, {&in, 1}, Deadline::in(10));
    if (rank == 1) return;
    // What it sent before it went is still there to be read; more than that is not.
    tcp->exchange({}, {}, {&from_2, 1}, Deadline::in(10));
    try {
      tcp->exchange({}, {}, {&from_2, 1}, Deadline::in(10));
      ADD_FAILURE() << "nothing was thrown";
    } catch (const PeerLost& error) {
      EXPECT_EQ(error.rank(), 2);
      EXPECT_TRUE(has(error.what(), "has finished")) << error.what();
    }
  }));
}

TEST(TcpFaults, WhoGivesUpTellsEveryoneWhy) {
  const auto thrown = play_tcp(4, 1, [](Transport& tcp) {
    if (tcp.rank() == 1) {
      tcp.abort("the disk is full");
      return;
    }
    wait_for_word_of(tcp, tcp.rank() == 0 ? 2 : 0, 10);
  });
  for (const size_t rank : {0, 2, 3}) {
    try {
      rethrow(thrown[rank]);
      ADD_FAILURE() << "nothing was thrown at rank " << rank;
    } catch (const PeerLost& error) {
      // Who was told first leaves, and another may be waiting for it.
      if (error.rank() == 1)
        EXPECT_TRUE(has(error.what(), "aborted: the disk is full")) << error.what();
      else
        EXPECT_TRUE(has(error.what(), "has finished")) << error.what();
    }
  }
}

TEST(TcpFaults, GivingUpFromAnotherThreadEndsTheExchangeHere) {
  const auto thrown = play_tcp(2, 1, [](Transport& tcp) {
    std::thread other;
    if (tcp.rank() == 0) other = std::thread([&] { tcp.abort("enough"); });
    EXPECT_THROW(wait_for_word_of(tcp, 1 - tcp.rank(), 10), PeerLost);
    if (other.joinable()) other.join();
  });
  expect_nothing(thrown);
}

TEST(TcpFaults, ALossIsPassedOnWithTheRankThatCausedIt) {
  Ranks ranks(3, 10, [](Transport& tcp) {
    try {
      wait_for_word_of(tcp, (tcp.rank() + 1) % 3, 20);
    } catch (const PeerLost& error) {
      tcp.abort(error.what());
      throw;
    }
  });
  ranks[2].send(SIGKILL);
  for (const int rank : {0, 1}) {
    const std::string line = ranks[rank].line();
    EXPECT_TRUE(line.starts_with("lost 2: ")) << line;
  }
}

}  // namespace
}  // namespace lockstep::transport
