#include "net/tcp_rendezvous.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <thread>

#include "base/clock.h"
#include "child_process.h"
#include "expect_error.h"
#include "net/dial.h"
#include "net/frame_link.h"
#include "net/worlds.h"

namespace lockstep::net {
namespace {

TEST(TcpRendezvous, GathersEveryonesTextInWorldsOfOneToFive) {
  for (int world = 1; world <= 5; ++world) {
    const uint16_t port = free_port();
    expect_nothing(play(world, [&](int rank) {
      const auto rendezvous = rendezvous_over_tcp(rendezvous_options(rank, world, port));
      EXPECT_EQ(rendezvous->rank(), rank);
      EXPECT_EQ(rendezvous->world_size(), world);
      for (int round = 0; round < 3; ++round) {
        const auto text = [&](int of) {
          return std::string(static_cast<size_t>(of * 100000), 'x') + std::to_string(of + round);
        };
        const std::vector<std::string> texts = rendezvous->gather(text(rank));
        ASSERT_EQ(texts.size(), static_cast<size_t>(world));
        for (int of = 0; of < world; ++of) EXPECT_EQ(texts[static_cast<size_t>(of)], text(of));
      }
    }));
  }
}

TEST(TcpRendezvous, WorksOverIpv6OrNamesTheAddressThatIsNotThere) {
  const std::vector<std::string> addresses = interface_addresses();
  const uint16_t port = free_port();
  if (std::find(addresses.begin(), addresses.end(), "::1") == addresses.end()) {
    TcpRendezvousOptions options = rendezvous_options(1, 2, port, 0.2);
    options.host = "::1";
    EXPECT_TRUE(has(message_of<Timeout>([&] { rendezvous_over_tcp(options); }), "::1"));
    return;
  }
  expect_nothing(play(2, [&](int rank) {
    TcpRendezvousOptions options = rendezvous_options(rank, 2, port);
    options.host = "::1";
    EXPECT_EQ(rendezvous_over_tcp(options)->gather("hello").size(), 2U);
  }));
}

TEST(TcpRendezvous, APortInUseIsNamedWithWhatToDo) {
  const Descriptor taken = listen_at("127.0.0.1", 0);
  const uint16_t port = local_address(taken.get()).port();
  expect_bad_input([&] { rendezvous_over_tcp(rendezvous_options(0, 2, port)); },
                   {"127.0.0.1:" + std::to_string(port), "in use", "choose another port"});
}

TEST(TcpRendezvous, MeetsAtASparePortThatIsFree) {
  const Descriptor silent = listen_at("127.0.0.1", 0);  // accepts connections and says nothing
  const uint16_t taken = local_address(silent.get()).port();
  const uint16_t port = free_port();
  expect_nothing(play(3, [&](int rank) {
    TcpRendezvousOptions options = rendezvous_options(rank, 3, taken, 30);
    options.spare_ports = {port};
    EXPECT_EQ(rendezvous_over_tcp(options)->gather("hello").size(), 3U);
  }));
}

TEST(TcpRendezvous, TwoJobsThatMayUseTheSamePortsDoNotMeet) {
  const uint16_t first = free_port();
  const uint16_t second = free_port();
  expect_nothing(play(4, [&](int worker) {
    TcpRendezvousOptions options = rendezvous_options(worker % 2, 2, first, 30);
    options.spare_ports = {second};
    options.key = worker < 2 ? "one job" : "another job";
    const std::string text = options.key;
    EXPECT_EQ(rendezvous_over_tcp(options)->gather(text), std::vector<std::string>(2, text));
  }));
}

TEST(TcpRendezvous, NamesAllPortsWhereRankZeroIsMissing) {
  TcpRendezvousOptions options = rendezvous_options(1, 2, free_port(), 0.2);
  options.spare_ports = {free_port()};
  const std::string message = message_of<Timeout>([&] { rendezvous_over_tcp(options); });
  EXPECT_TRUE(has(message, std::to_string(options.port))) << message;
  EXPECT_TRUE(has(message, std::to_string(options.spare_ports[0]))) << message;
}

TEST(TcpRendezvous, AMissingRankZeroIsATimeoutThatNamesAddressAndCause) {
  const uint16_t port = free_port();
  const std::string message =
      message_of<Timeout>([&] { rendezvous_over_tcp(rendezvous_options(1, 2, port, 0.2)); });
  EXPECT_TRUE(has(message, "127.0.0.1:" + std::to_string(port))) << message;
  EXPECT_TRUE(has(message, "Connection refused")) << message;
}

TEST(TcpRendezvous, AHostThatDoesNotExistIsBadInput) {
  TcpRendezvousOptions options = rendezvous_options(1, 2, 29500);
  options.host = "no-such-host.invalid";
  try {
    options.timeout_seconds = 0.5;
    rendezvous_over_tcp(options);
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
    TcpRendezvousOptions options = rendezvous_options(rank, 2, port, 60);
    options.stop = asked.get();
    const std::string message = message_of<Interrupted>([&] { rendezvous_over_tcp(options); });
    EXPECT_TRUE(has(message, fmt::format("interrupted while waiting for rank {}", 1 - rank)))
        << message;
  }
  EXPECT_LT(watch.seconds(), 5);
}

// What ranks 0 and 1 of 3 throw if rank 0 is asked to stop after `seconds`; nothing if rank 1 had
// not connected by then.
std::vector<std::exception_ptr> stopped_after(double seconds) {
  const uint16_t port = free_port();
  const Descriptor asked[] = {Descriptor(eventfd(0, EFD_CLOEXEC)),
                              Descriptor(eventfd(0, EFD_CLOEXEC))};
  std::atomic<bool> too_early = false;
  std::thread asks([&] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    eventfd_write(asked[0].get(), 1);
  });
  auto thrown = play(2, [&](int rank) {
    TcpRendezvousOptions options = rendezvous_options(rank, 3, port, 60);
    options.stop = asked[rank].get();
    try {
      rendezvous_over_tcp(options);
    } catch (const Interrupted& error) {
      too_early = too_early || has(error.what(), "waiting for ranks 1, 2");
      if (too_early) eventfd_write(asked[1].get(), 1);
      throw;
    }
  });
  asks.join();
  if (too_early) thrown.clear();
  return thrown;
}

TEST(TcpRendezvous, EndsOnAllConnectedRanksWhenRankZeroIsAskedToStop) {
  std::vector<std::exception_ptr> thrown;
  for (double seconds = 0.1; thrown.empty() && seconds < 30; seconds *= 3)
    thrown = stopped_after(seconds);
  ASSERT_FALSE(thrown.empty());
  EXPECT_TRUE(has(message_of<Interrupted>([&] { rethrow(thrown[0]); }), "waiting for rank 2"));
  EXPECT_TRUE(has(message_of<PeerLost>([&] { rethrow(thrown[1]); }), "rank 0 was interrupted"));
}

TEST(TcpRendezvous, RefusesRanksThatAreOutOfRangeAndGoesOn) {
  const uint16_t port = free_port();
  std::vector<std::string> log;
  std::latch refused(1);
  const auto thrown = play(3, [&](int i) {
    TcpRendezvousOptions options = rendezvous_options(i == 2 ? 1 : 0, 2, port);
    if (i == 0) options.log = [&](const std::string& line) { log.push_back(line); };
    if (i == 1) {  // has the same world size, and rank 9
      Dial dial({"127.0.0.1"}, {port}, "a key", {.from = 9, .kind = ConnectionKind::rendezvous},
                Dial::WhenRefused::give_up);
      while (!dial.advance()) {
        pollfd wait = dial.waits_for();
        wait_for({&wait, 1}, dial.seconds_to_next());
      }
      FrameLink link(dial.take());
      link.send(FrameKind::join,
                encode(Join{
                    .world_size = 2, .pid = 1, .milliseconds_left = 10'000, .host = "elsewhere"}));
      while (!link.receive() && !link.closed()) {
        pollfd wait = link.waits_for();
        wait_for({&wait, 1}, 1);
      }
      refused.count_down();
      return;
    }
    if (i == 2) refused.wait();
    rendezvous_over_tcp(options);
  });
  expect_nothing(thrown);
  ASSERT_EQ(log.size(), 1U);
  EXPECT_TRUE(has(log[0], "refused rank 9 (elsewhere, pid 1): ranks of this job are 0 to 1"))
      << log[0];
}

TEST(TcpRendezvous, LogsTheAddressOfAWorkerWithAnotherKeyAtOnce) {
  const uint16_t port = free_port();
  std::vector<std::string> log;
  play(2, [&](int rank) {
    TcpRendezvousOptions options = rendezvous_options(rank, 2, port, 1);
    if (rank == 0) options.log = [&](const std::string& line) { log.push_back(line); };
    if (rank == 1) options.key = "another key";
    rendezvous_over_tcp(options);
  });
  ASSERT_FALSE(log.empty());
  EXPECT_TRUE(has(log[0], "refused a worker at 127.0.0.1:")) << log[0];
  EXPECT_TRUE(has(log[0], "another job key")) << log[0];
}

TEST(TcpRendezvous, NamesMissingRanksOnAllConnectedRanks) {
  const uint16_t port = free_port();
  const std::vector<int> present = {0, 2};
  const auto thrown = play(2, [&](int i) {
    rendezvous_over_tcp(rendezvous_options(present[static_cast<size_t>(i)], 4, port, 0.5));
  });
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
  std::vector<std::unique_ptr<Rendezvous>> all(3);
  expect_nothing(play(3, [&](int rank) {
    all[static_cast<size_t>(rank)] = rendezvous_over_tcp(rendezvous_options(rank, 3, port, 0.5));
  }));
  const auto thrown = play(2, [&](int rank) { all[static_cast<size_t>(rank)]->gather("here"); });
  for (const std::exception_ptr& one : thrown) {
    try {
      rethrow(one);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Timeout& error) {
      EXPECT_EQ(error.ranks(), std::vector<int>{2}) << error.what();
    }
  }
}

TEST(TcpRendezvous, TwoWorkersWithOneRankAreAMismatchOnAllConnectedRanks) {
  const uint16_t port = free_port();
  const std::vector<int> ranks = {0, 1, 1};
  const auto thrown = play(3, [&](int i) {
    rendezvous_over_tcp(rendezvous_options(ranks[static_cast<size_t>(i)], 4, port));
  });
  for (const std::exception_ptr& one : thrown) {
    const std::string message = message_of<Mismatch>([&] { rethrow(one); });
    EXPECT_TRUE(has(message, "two workers have rank 1")) << message;
  }
}

TEST(TcpRendezvous, AWorkerWithATakenRankIsRefusedAloneOnceAllHaveConnected) {
  const uint16_t port = free_port();
  std::vector<std::unique_ptr<Rendezvous>> all(2);
  expect_nothing(play(2, [&](int rank) {
    all[static_cast<size_t>(rank)] = rendezvous_over_tcp(rendezvous_options(rank, 2, port));
  }));
  expect_nothing(play(2, [&](int rank) {
    if (rank == 1) {
      EXPECT_THROW(rendezvous_over_tcp(rendezvous_options(1, 2, port)), Mismatch);
    }
    EXPECT_EQ(all[static_cast<size_t>(rank)]->gather("here").size(), 2U);
  }));
}

TEST(TcpRendezvous, DifferentWorldSizesAreAMismatchOnAllConnectedRanks) {
  const uint16_t port = free_port();
  const std::vector<int> worlds = {4, 4, 3};
  const auto thrown = play(3, [&](int rank) {
    rendezvous_over_tcp(rendezvous_options(rank, worlds[static_cast<size_t>(rank)], port, 1));
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
    } catch (const Timeout&) {  // connected after rank 0 had given up
    }
  }
  EXPECT_GE(told, 2);
}

TEST(TcpRendezvous, ARankOutOfRangeIsBadInput) {
  expect_bad_input([] { rendezvous_over_tcp(rendezvous_options(3, 3, 29500)); },
                   {"rank 3", "0 to 2"});
  expect_bad_input([] { rendezvous_over_tcp(rendezvous_options(-1, 3, 29500)); }, {"rank -1"});
  expect_bad_input([] { rendezvous_over_tcp(rendezvous_options(0, 0, 29500)); }, {"world size 0"});
}

TEST(TcpRendezvous, ARankThatDiesWhileOthersWaitIsNamedOnAll) {
  const uint16_t port = free_port();
  const auto joins = [&](int rank) {
    return [=](const ChildProcess::Say& say) {
      try {
        const auto rendezvous = rendezvous_over_tcp(rendezvous_options(rank, 3, port));
        say("connected");
        if (rank == 2) pause();
        rendezvous->gather("here");
      } catch (const PeerLost& error) {
        say(fmt::format("lost {}: {}", error.rank(), error.what()));
      }
    };
  };
  ChildProcess rank_0(joins(0));
  ChildProcess other(joins(1));
  ChildProcess victim(joins(2));
  for (ChildProcess* one : {&rank_0, &other, &victim}) ASSERT_EQ(one->line(), "connected");
  victim.send(SIGKILL);
  for (ChildProcess* one : {&rank_0, &other}) {
    const std::string line = one->line();
    EXPECT_TRUE(line.starts_with("lost 2: rank 2 (")) << line;
    EXPECT_TRUE(has(line, std::to_string(victim.pid()))) << line;
  }
}

TEST(TcpRendezvous, WhenRankZeroDiesTheOthersAreTold) {
  const uint16_t port = free_port();
  ChildProcess rank_0([&](const ChildProcess::Say& say) {
    const auto rendezvous = rendezvous_over_tcp(rendezvous_options(0, 2, port));
    say("connected");
    pause();
  });
  const auto rendezvous = rendezvous_over_tcp(rendezvous_options(1, 2, port));
  ASSERT_EQ(rank_0.line(), "connected");
  rank_0.send(SIGKILL);
  EXPECT_THROW(rendezvous->gather("here"), PeerLost);
}

}  // namespace
}  // namespace lockstep::net
