#include "transport/tcp/tcp_rendezvous.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <chrono>
#include <latch>
#include <thread>

#include "base/clock.h"
#include "expect_error.h"
#include "transport/child_process.h"
#include "transport/tcp/dial.h"
#include "transport/tcp/frame_link.h"
#include "transport/tcp_worlds.h"

namespace lockstep::transport {
namespace {

TEST(TcpRendezvous, GathersEveryonesTextInWorldsOfOneToFive) {
  for (int world = 1; world <= 5; ++world) {
    const uint16_t port = free_port();
    expect_nothing(play(world, [&](int rank) {
      const auto meeting = meet_over_tcp(meeting_of(rank, world, port));
      EXPECT_EQ(meeting->rank(), rank);
      EXPECT_EQ(meeting->world_size(), world);
      for (int round = 0; round < 3; ++round) {
        const auto text = [&](int of) {
          return std::string(static_cast<size_t>(of * 100000), 'x') + std::to_string(of + round);
        };
        const std::vector<std::string> texts = meeting->gather(text(rank));
        ASSERT_EQ(texts.size(), static_cast<size_t>(world));
        for (int of = 0; of < world; ++of) EXPECT_EQ(texts[static_cast<size_t>(of)], text(of));
      }
    }));
  }
}

TEST(TcpRendezvous, MeetsOverIpv6OrNamesTheAddressThatIsNotThere) {
  const std::vector<std::string> addresses = interface_addresses();
  const uint16_t port = free_port();
  if (std::find(addresses.begin(), addresses.end(), "::1") == addresses.end()) {
    Meeting meeting = meeting_of(1, 2, port, 0.2);
    meeting.host = "::1";
    EXPECT_TRUE(has(message_of<Timeout>([&] { meet_over_tcp(meeting); }), "::1"));
    return;
  }
  expect_nothing(play(2, [&](int rank) {
    Meeting meeting = meeting_of(rank, 2, port);
    meeting.host = "::1";
    EXPECT_EQ(meet_over_tcp(meeting)->gather("hello").size(), 2U);
  }));
}

TEST(TcpRendezvous, APortInUseIsNamedWithWhatToDo) {
  const Descriptor taken = listen_at("127.0.0.1", 0);
  const uint16_t port = local_address(taken.get()).port();
  expect_bad_input([&] { meet_over_tcp(meeting_of(0, 2, port)); },
                   {"127.0.0.1:" + std::to_string(port), "in use", "choose another port"});
}

TEST(TcpRendezvous, AMasterThatIsNotThereIsATimeoutThatNamesAddressAndCause) {
  const uint16_t port = free_port();
  const std::string message =
      message_of<Timeout>([&] { meet_over_tcp(meeting_of(1, 2, port, 0.2)); });
  EXPECT_TRUE(has(message, "127.0.0.1:" + std::to_string(port))) << message;
  EXPECT_TRUE(has(message, "Connection refused")) << message;
}

TEST(TcpRendezvous, AHostThatDoesNotExistIsBadInput) {
  Meeting meeting = meeting_of(1, 2, 29500);
  meeting.host = "no-such-host.invalid";
  try {
    meeting.seconds = 0.5;
    meet_over_tcp(meeting);
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_TRUE(has(error.what(), "no-such-host.invalid")) << error.what();
  } catch (const Timeout& error) {  // where no name service answers at all
    EXPECT_TRUE(has(error.what(), "no-such-host.invalid")) << error.what();
  }
}

TEST(TcpRendezvous, EndsAtOnceWhenThisWorkerIsAskedToStop) {
  const uint16_t port = free_port();
  const Descriptor asked(eventfd(1, EFD_CLOEXEC));
  const Stopwatch watch;
  for (const int rank : {0, 1}) {
    Meeting meeting = meeting_of(rank, 2, port, 60);
    meeting.stop = asked.get();
    const std::string message = message_of<Interrupted>([&] { meet_over_tcp(meeting); });
    EXPECT_TRUE(has(message, fmt::format("interrupted while waiting for rank {}", 1 - rank)))
        << message;
  }
  EXPECT_LT(watch.seconds(), 5);
}

TEST(TcpRendezvous, EndsForThoseWhoCameWhenRankZeroIsAskedToStop) {
  const uint16_t port = free_port();
  const Descriptor asked(eventfd(0, EFD_CLOEXEC));
  std::thread asks([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    eventfd_write(asked.get(), 1);
  });
  const auto thrown = play(2, [&](int rank) {
    Meeting meeting = meeting_of(rank, 3, port, 60);
    if (rank == 0) meeting.stop = asked.get();
    meet_over_tcp(meeting);
  });
  asks.join();
  EXPECT_TRUE(has(message_of<Interrupted>([&] { rethrow(thrown[0]); }), "waiting for rank 2"));
  EXPECT_TRUE(has(message_of<PeerLost>([&] { rethrow(thrown[1]); }), "rank 0 was interrupted"));
}

TEST(TcpRendezvous, TurnsAwayRanksThatCannotBeAndGoesOn) {
  const uint16_t port = free_port();
  std::vector<std::string> log;
  std::latch came(1);
  const auto thrown = play(3, [&](int i) {
    Meeting meeting = meeting_of(i == 2 ? 1 : 0, 2, port);
    if (i == 0) meeting.log = [&](const std::string& line) { log.push_back(line); };
    if (i == 1) {  // believes in the same world, and says it is rank 9
      Dial dial({"127.0.0.1"}, port, "a key", {.from = 9, .purpose = Purpose::rendezvous},
                Dial::WhenRefused::give_up);
      while (!dial.advance()) {
        pollfd wait = dial.waits_for();
        wait_for({&wait, 1}, dial.patience());
      }
      FrameLink link(dial.take());
      link.send(
          FrameKind::join,
          encode(Join{.world = 2, .pid = 1, .milliseconds_left = 10'000, .host = "elsewhere"}));
      while (!link.receive() && !link.closed()) {
        pollfd wait = link.waits_for();
        wait_for({&wait, 1}, 1);
      }
      came.count_down();
      return;
    }
    if (i == 2) came.wait();
    meet_over_tcp(meeting);
  });
  expect_nothing(thrown);
  ASSERT_EQ(log.size(), 1U);
  EXPECT_TRUE(has(log[0], "turned rank 9 (elsewhere, pid 1) away: ranks of this job are 0 to 1"))
      << log[0];
}

TEST(TcpRendezvous, SaysAtOnceWhereAWorkerWithAnotherKeyCameFrom) {
  const uint16_t port = free_port();
  std::vector<std::string> log;
  play(2, [&](int rank) {
    Meeting meeting = meeting_of(rank, 2, port, 1);
    if (rank == 0) meeting.log = [&](const std::string& line) { log.push_back(line); };
    if (rank == 1) meeting.key = "another key";
    meet_over_tcp(meeting);
  });
  ASSERT_FALSE(log.empty());
  EXPECT_TRUE(has(log[0], "turned away a worker at 127.0.0.1:")) << log[0];
  EXPECT_TRUE(has(log[0], "another job key")) << log[0];
}

TEST(TcpRendezvous, MissingRanksAreNamedOnAllThatCame) {
  const uint16_t port = free_port();
  const std::vector<int> present = {0, 2};
  const auto thrown = play(
      2, [&](int i) { meet_over_tcp(meeting_of(present[static_cast<size_t>(i)], 4, port, 0.5)); });
  for (const std::exception_ptr& one : thrown) {
    try {
      rethrow(one);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Timeout& error) {
      EXPECT_EQ(error.ranks(), (std::vector<int>{1, 3})) << error.what();
    }
  }
}

TEST(TcpRendezvous, ARankThatDoesNotGatherIsNamedOnAllOthers) {
  const uint16_t port = free_port();
  std::vector<std::unique_ptr<Rendezvous>> meetings(3);
  expect_nothing(play(3, [&](int rank) {
    meetings[static_cast<size_t>(rank)] = meet_over_tcp(meeting_of(rank, 3, port, 0.5));
  }));
  const auto thrown =
      play(2, [&](int rank) { meetings[static_cast<size_t>(rank)]->gather("here"); });
  for (const std::exception_ptr& one : thrown) {
    try {
      rethrow(one);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Timeout& error) {
      EXPECT_EQ(error.ranks(), std::vector<int>{2}) << error.what();
    }
  }
}

TEST(TcpRendezvous, TwoWorkersWithOneRankAreAMismatchForAllThatCame) {
  const uint16_t port = free_port();
  const std::vector<int> ranks = {0, 1, 1};
  const auto thrown =
      play(3, [&](int i) { meet_over_tcp(meeting_of(ranks[static_cast<size_t>(i)], 4, port)); });
  for (const std::exception_ptr& one : thrown) {
    const std::string message = message_of<Mismatch>([&] { rethrow(one); });
    EXPECT_TRUE(has(message, "two workers say they are rank 1")) << message;
  }
}

TEST(TcpRendezvous, WhoComesWithATakenRankAfterAllHaveMetIsRefusedAlone) {
  const uint16_t port = free_port();
  std::vector<std::unique_ptr<Rendezvous>> meetings(2);
  expect_nothing(play(2, [&](int rank) {
    meetings[static_cast<size_t>(rank)] = meet_over_tcp(meeting_of(rank, 2, port));
  }));
  expect_nothing(play(2, [&](int rank) {
    if (rank == 1) {
      EXPECT_THROW(meet_over_tcp(meeting_of(1, 2, port)), Mismatch);
    }
    EXPECT_EQ(meetings[static_cast<size_t>(rank)]->gather("here").size(), 2U);
  }));
}

TEST(TcpRendezvous, DifferentWorldSizesAreAMismatchForAllThatCame) {
  const uint16_t port = free_port();
  const std::vector<int> worlds = {4, 4, 3};
  const auto thrown = play(3, [&](int rank) {
    meet_over_tcp(meeting_of(rank, worlds[static_cast<size_t>(rank)], port, 1));
  });
  int told = 0;
  for (const std::exception_ptr& one : thrown) {
    try {
      rethrow(one);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Mismatch& error) {
      EXPECT_TRUE(has(error.what(), "world of 3")) << error.what();
      EXPECT_TRUE(has(error.what(), "world of 4")) << error.what();
      ++told;
    } catch (const Timeout&) {  // came when rank 0 had gone already
    }
  }
  EXPECT_GE(told, 2);
}

TEST(TcpRendezvous, ARankOutOfRangeIsBadInput) {
  expect_bad_input([] { meet_over_tcp(meeting_of(3, 3, 29500)); }, {"rank 3", "0 to 2"});
  expect_bad_input([] { meet_over_tcp(meeting_of(-1, 3, 29500)); }, {"rank -1"});
  expect_bad_input([] { meet_over_tcp(meeting_of(0, 0, 29500)); }, {"world size 0"});
}

TEST(TcpRendezvous, ARankThatDiesWhileOthersWaitIsNamedOnAll) {
  const uint16_t port = free_port();
  const auto joins = [&](int rank) {
    return [=](const ChildProcess::Say& say) {
      try {
        const auto meeting = meet_over_tcp(meeting_of(rank, 3, port));
        say("met");
        if (rank == 2) pause();
        meeting->gather("here");
      } catch (const PeerLost& error) {
        say(fmt::format("lost {}: {}", error.rank(), error.what()));
      }
    };
  };
  ChildProcess host(joins(0));
  ChildProcess guest(joins(1));
  ChildProcess victim(joins(2));
  for (ChildProcess* one : {&host, &guest, &victim}) ASSERT_EQ(one->line(), "met");
  victim.send(SIGKILL);
  for (ChildProcess* one : {&host, &guest}) {
    const std::string line = one->line();
    EXPECT_TRUE(line.starts_with("lost 2: rank 2 (")) << line;
    EXPECT_TRUE(has(line, std::to_string(victim.pid()))) << line;
  }
}

TEST(TcpRendezvous, WhenRankZeroDiesTheOthersAreTold) {
  const uint16_t port = free_port();
  ChildProcess host([&](const ChildProcess::Say& say) {
    const auto meeting = meet_over_tcp(meeting_of(0, 2, port));
    say("met");
    pause();
  });
  const auto meeting = meet_over_tcp(meeting_of(1, 2, port));
  ASSERT_EQ(host.line(), "met");
  host.send(SIGKILL);
  EXPECT_THROW(meeting->gather("here"), PeerLost);
}

}  // namespace
}  // namespace lockstep::transport
