#include "transport/tcp/tcp.h"

#include <cstring>
#include <numeric>

#include "expect_error.h"
#include "transport/ranks.h"
#include "transport/tcp_worlds.h"

namespace lockstep::transport {
namespace {

const std::vector<size_t> kSizes = {0, 1, 63, 64, 65, (1 << 20) + 3};

Label label_of(uint64_t word) {
  return {{word, 2, 3, 4, 5}};
}

// Bytes that differ by sender, receiver and place.
std::vector<std::byte> pattern(int from, int to, size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (size_t i = 0; i < bytes; ++i)
    made[i] = static_cast<std::byte>(i * 7 + i / 251 + static_cast<size_t>(from * 31 + to * 17));
  return made;
}

void add_floats(std::byte* into, const std::byte* from, size_t bytes) {
  for (size_t i = 0; i + sizeof(float) <= bytes; i += sizeof(float)) {
    float sum = 0;
    float term = 0;
    std::memcpy(&sum, into + i, sizeof sum);
    std::memcpy(&term, from + i, sizeof term);
    sum += term;
    std::memcpy(into + i, &sum, sizeof sum);
  }
}

// Every rank sends every other one message of each size, all in one exchange.
void all_to_all(Transport& tcp) {
  const int world = tcp.world_size();
  std::vector<std::vector<std::byte>> sent;
  std::vector<std::vector<std::byte>> expected;
  std::vector<std::vector<std::byte>> received;
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (int peer = 0; peer < world; ++peer) {
    if (peer == tcp.rank()) continue;
    for (const size_t bytes : kSizes) {
      sent.push_back(pattern(tcp.rank(), peer, bytes));
      expected.push_back(pattern(peer, tcp.rank(), bytes));
      received.emplace_back(bytes);
      outgoing.push_back({peer, sent.back().data(), bytes});
      incoming.push_back({peer, received.back().data(), bytes});
    }
  }
  tcp.exchange(label_of(1), outgoing, incoming, soon());
  for (size_t i = 0; i < received.size(); ++i)
    EXPECT_TRUE(received[i] == expected[i]) << "message " << i << " at rank " << tcp.rank();
}

TEST(Tcp, CarriesMessagesOfAllSizesFromEachToEach) {
  for (const int streams : {1, 3})
    for (const int world : {1, 2, 4})
      expect_nothing(play_tcp(world, streams, [](Transport& tcp) {
        for (int i = 0; i < 3; ++i) all_to_all(tcp);
      }));
}

TEST(Tcp, CombinesWhatArrivesWithWhatIsThere) {
  for (const int streams : {1, 3})
    for (const size_t count :
         {size_t{1}, size_t{16}, size_t{17}, size_t{1} << 20, (size_t{1} << 20) + 5})
      expect_nothing(play_tcp(2, streams, [&](Transport& tcp) {
        std::vector<float> own(count);
        std::iota(own.begin(), own.end(), static_cast<float>(tcp.rank()));
        std::vector<float> sum(count, 1);
        const int peer = 1 - tcp.rank();
        const Outgoing out{peer, reinterpret_cast<const std::byte*>(own.data()), count * 4};
        const Incoming in{peer, reinterpret_cast<std::byte*>(sum.data()), count * 4, add_floats};
        tcp.exchange(label_of(1), {&out, 1}, {&in, 1}, soon());
        size_t wrong = 0;
        for (size_t i = 0; i < count; ++i)
          wrong += sum[i] != static_cast<float>(i) + static_cast<float>(peer) + 1;
        EXPECT_EQ(wrong, 0U);
      }));
}

TEST(Tcp, AMessageForALaterExchangeWaitsInItsPlace) {
  expect_nothing(play_tcp(3, 1, [](Transport& tcp) {
    // Rank 2 sends to rank 0 at once; rank 0 hears rank 1 first, who waits for rank 0's word.
    std::vector<std::byte> one(1000, std::byte{1});
    std::vector<std::byte> got(1000);
    const auto send = [&](uint64_t what, int peer) {
      const Outgoing out{peer, one.data(), one.size()};
      tcp.exchange(label_of(what), {&out, 1}, {}, soon());
    };
    const auto receive = [&](uint64_t what, int peer) {
      const Incoming in{peer, got.data(), got.size()};
      tcp.exchange(label_of(what), {}, {&in, 1}, soon());
      EXPECT_EQ(got, one);
    };
    if (tcp.rank() == 2) send(9, 0), send(10, 0), receive(11, 0);
    if (tcp.rank() == 1) receive(7, 0), send(8, 0);
    if (tcp.rank() == 0) send(7, 1), receive(8, 1), receive(9, 2), receive(10, 2), send(11, 2);
  }));
}

TEST(Tcp, KnowsItsPeersByHostAndProcess) {
  expect_nothing(play_tcp(3, 1, [](Transport& tcp) {
    ASSERT_EQ(tcp.peers().size(), 3U);
    for (int rank = 0; rank < 3; ++rank) {
      const Peer& peer = tcp.peers()[static_cast<size_t>(rank)];
      EXPECT_EQ(peer.rank, rank);
      EXPECT_EQ(peer.pid, getpid());
      EXPECT_FALSE(peer.host.empty());
    }
  }));
}

TEST(Tcp, GivesZeroedAndAlignedMemoryThatOutlivesIt) {
  Memory memory;
  expect_nothing(play_tcp(1, 1, [&](Transport& tcp) { memory = tcp.allocate(3 << 20); }));
  ASSERT_EQ(memory.bytes, size_t{3} << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data.get()) % 64, 0U);
  EXPECT_TRUE(std::all_of(memory.data.get(), memory.data.get() + memory.bytes,
                          [](std::byte b) { return b == std::byte{0}; }));
}

TEST(Tcp, RanksThatDoDifferentThingsAreToldWhatTheOtherDoes) {
  const auto thrown = play_tcp(2, 1, [](Transport& tcp) {
    std::vector<std::byte> data(100);
    std::vector<std::byte> got(100);
    const int peer = 1 - tcp.rank();
    const Outgoing out{peer, data.data(), data.size()};
    const Incoming in{peer, got.data(), got.size()};
    tcp.exchange(label_of(static_cast<uint64_t>(tcp.rank()) + 70), {&out, 1}, {&in, 1}, soon());
  });
  for (uint64_t rank = 0; rank < 2; ++rank) {
    try {
      rethrow(thrown[rank]);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Disagreement& error) {
      EXPECT_EQ(error.peer, static_cast<int>(1 - rank));
      EXPECT_EQ(error.theirs, label_of(71 - rank));
      EXPECT_EQ(error.bytes, 100U);
    } catch (const PeerLost&) {  // the other one found out first, and left
    }
  }
}

TEST(Tcp, MessagesOfDifferentSizesAreADisagreement) {
  for (const size_t other : {size_t{99}, size_t{4} << 20}) {
    const auto thrown = play_tcp(2, 3, [&](Transport& tcp) {
      std::vector<std::byte> data(other);
      const Outgoing out{0, data.data(), data.size()};
      const Incoming in{1, data.data(), 98};
      if (tcp.rank() == 1) tcp.exchange(label_of(1), {&out, 1}, {}, soon());
      if (tcp.rank() == 0) tcp.exchange(label_of(1), {}, {&in, 1}, soon());
    });
    try {
      rethrow(thrown[0]);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Disagreement& error) {
      EXPECT_EQ(error.bytes, other);
    }
  }
}

TEST(Tcp, ATimeoutNamesTheRanksThatWereWaitedFor) {
  const auto thrown = play_tcp(3, 1, [](Transport& tcp) {
    std::byte got[2] = {};
    const std::vector<Incoming> in = {{1, got, 1}, {2, got + 1, 1}};
    const Outgoing out{0, got, 1};
    if (tcp.rank() == 1) tcp.exchange(label_of(1), {&out, 1}, {}, soon());
    if (tcp.rank() != 0) {
      // Stays until rank 0 has gone.
      const Incoming never{0, got, 1};
      EXPECT_THROW(tcp.exchange(label_of(2), {}, {&never, 1}, soon()), PeerLost);
      return;
    }
    tcp.exchange(label_of(1), {}, in, Deadline::in(0.2));
  });
  try {
    rethrow(thrown[0]);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Timeout& error) {
    EXPECT_EQ(error.ranks(), std::vector<int>{2}) << error.what();
    EXPECT_NE(std::string(error.what()).find("rank 2 ("), std::string::npos) << error.what();
  }
}

TEST(Tcp, DifferentNumbersOfStreamsAreAMismatchForAll) {
  const uint16_t port = free_port();
  const auto thrown = play(2, [&](int rank) {
    const auto rendezvous = rendezvous_over_tcp(rendezvous_options(rank, 2, port));
    connect_tcp(*rendezvous, {.key = "a key", .streams = rank + 1});
  });
  for (const auto& one : thrown) EXPECT_THROW(rethrow(one), Mismatch);
}

}  // namespace
}  // namespace lockstep::transport
