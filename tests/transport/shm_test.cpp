#include "transport/shm/shm.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <numeric>

#include "base/clock.h"
#include "ranks.h"
#include "transport/shm/shared_board.h"
#include "transport/shm/shared_segment.h"
#include "transport/shm/shared_wait.h"

namespace lockstep::transport {
namespace {

using Message = std::vector<std::byte>;

Label label(uint64_t number) {
  return {{number, 1, 2, 3, 4}};
}

Message pattern(int rank, size_t bytes) {
  Message data(bytes);
  for (size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>(i * 31 + static_cast<size_t>(rank));
  return data;
}

void add_bytes(std::byte* into, const std::byte* from, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    into[i] = static_cast<std::byte>(static_cast<int>(into[i]) + static_cast<int>(from[i]));
}

TEST(Shm, CarriesMessagesOfAnySizeFromAnywhereInMemory) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{64}, size_t{1'000'003}})
    EXPECT_EQ(errors_of_ranks(3,
                              [&](Rendezvous& rendezvous) {
                                const auto shm = connect_shm(rendezvous);
                                const int next = (shm->rank() + 1) % 3;
                                const int before = (shm->rank() + 2) % 3;
                                const Message sent = pattern(shm->rank(), bytes);
                                Message received(bytes);
                                const Outgoing out{next, sent.data(), bytes};
                                const Incoming in{before, received.data(), bytes};
                                shm->exchange(label(1), {&out, 1}, {&in, 1}, soon());
                                EXPECT_EQ(received, pattern(before, bytes));
                              }),
              no_errors(3));
}

TEST(Shm, CombinesStraightOutOfTheSendersMemory) {
  EXPECT_EQ(errors_of_ranks(2,
                            [](Rendezvous& rendezvous) {
                              const auto shm = connect_shm(rendezvous);
                              const Memory bucket = shm->allocate(1000);
                              Message sum(1000, std::byte{5});
                              std::memset(bucket.data.get(), 2, 1000);
                              const int peer = 1 - shm->rank();
                              const Outgoing out{peer, bucket.data.get(), 1000};
                              const Incoming in{peer, sum.data(), 1000, add_bytes};
                              shm->exchange(label(1), {&out, 1}, {&in, 1}, soon());
                              EXPECT_EQ(sum, Message(1000, std::byte{7}));
                            }),
            no_errors(2));
}

TEST(Shm, KeepsTheOrderOfMoreMessagesThanAQueueHolds) {
  constexpr int kMessages = 100;
  EXPECT_EQ(errors_of_ranks(2,
                            [](Rendezvous& rendezvous) {
                              const auto shm = connect_shm(rendezvous);
                              const int peer = 1 - shm->rank();
                              Message sent(kMessages);
                              Message received(kMessages);
                              std::vector<Outgoing> out;
                              std::vector<Incoming> in;
                              for (size_t i = 0; i < kMessages; ++i) {
                                sent[i] = static_cast<std::byte>(i);
                                out.push_back({peer, &sent[i], 1});
                                in.push_back({peer, &received[i], 1});
                              }
                              shm->exchange(label(1), out, in, soon());
                              EXPECT_EQ(received, sent);
                            }),
            no_errors(2));
}

TEST(Shm, TellsThatAPeerSentSomethingElse) {
  const auto errors = errors_of_ranks(2, [](Rendezvous& rendezvous) {
    const auto shm = connect_shm(rendezvous);
    const int peer = 1 - shm->rank();
    std::byte sent{1};
    std::byte received{};
    const Outgoing out{peer, &sent, 1};
    const Incoming in{peer, &received, 1};
    EXPECT_THROW(
        shm->exchange(label(static_cast<uint64_t>(shm->rank())), {&out, 1}, {&in, 1}, soon()),
        Disagreement);
    rendezvous.gather("");
  });
  EXPECT_EQ(errors, no_errors(2));
}

TEST(Shm, NamesTheRankThatDidNotArrive) {
  const auto errors = errors_of_ranks(3, [](Rendezvous& rendezvous) {
    const auto shm = connect_shm(rendezvous);
    if (shm->rank() != 2) {
      std::byte received{};
      const Incoming in{2, &received, 1};
      try {
        shm->exchange(label(1), {}, {&in, 1}, Deadline::in(0.2));
        ADD_FAILURE() << "it arrived";
      } catch (const Timeout& late) {
        EXPECT_EQ(late.ranks(), std::vector<int>{2});
      }
    }
    rendezvous.gather("");
  });
  EXPECT_EQ(errors, no_errors(3));
}

TEST(Shm, GivesTheReasonOfARankThatGaveUpToAll) {
  const auto errors = errors_of_ranks(3, [](Rendezvous& rendezvous) {
    const auto shm = connect_shm(rendezvous);
    if (shm->rank() == 1) {
      shm->abort("it had enough");
    } else {
      std::byte received{};
      const Incoming in{1, &received, 1};
      try {
        shm->exchange(label(1), {}, {&in, 1}, soon());
        ADD_FAILURE() << "it arrived";
      } catch (const PeerLost& lost) {
        EXPECT_EQ(lost.rank(), 1);
        EXPECT_NE(std::string(lost.what()).find("it had enough"), std::string::npos);
      }
    }
    rendezvous.gather("");
  });
  EXPECT_EQ(errors, no_errors(3));
}

TEST(Shm, GivesMemoryBackAndHandsItOutZeroed) {
  EXPECT_EQ(errors_of_ranks(1,
                            [](Rendezvous& rendezvous) {
                              const auto shm = connect_shm(rendezvous);
                              Memory memory = shm->allocate(10'000);
                              std::byte* const place = memory.data.get();
                              std::memset(place, 7, 10'000);
                              memory = {};
                              memory = shm->allocate(10'000);
                              EXPECT_EQ(memory.data.get(), place);
                              EXPECT_EQ(place[9'999], std::byte{0});
                            }),
            no_errors(1));
}

TEST(Shm, RefusesMoreMemoryThanThereIs) {
  EXPECT_EQ(errors_of_ranks(1,
                            [](Rendezvous& rendezvous) {
                              const auto shm = connect_shm(rendezvous);
                              EXPECT_THROW(shm->allocate(size_t{1} << 60), Error);
                            }),
            no_errors(1));
}

TEST(Shm, MemoryOutlivesTheTransport) {
  EXPECT_EQ(errors_of_ranks(1,
                            [](Rendezvous& rendezvous) {
                              auto shm = connect_shm(rendezvous);
                              const Memory memory = shm->allocate(100);
                              shm.reset();
                              memory.data.get()[99] = std::byte{1};
                            }),
            no_errors(1));
}

TEST(Shm, RefusesRanksOnSeveralHosts) {
  const auto errors = errors_of_ranks(2, [](Rendezvous& rendezvous) {
    connect_shm(rendezvous, {.host = rendezvous.rank() == 0 ? "here" : "there"});
  });
  for (const std::string& error : errors)
    EXPECT_NE(error.find("share no memory"), std::string::npos) << error;
}

TEST(Shm, DoesNotWaitForLastWordsThatARankDidNotFinish) {
  const auto errors = errors_of_ranks(2, [](Rendezvous& rendezvous) {
    const auto segment = SharedSegment::open(rendezvous);
    auto wait = std::make_unique<SharedWait>(segment, 10);
    if (segment->rank() == 0) {
      segment->last_words().state = 1;
      wait.reset();
    }
    rendezvous.gather("");
    if (segment->rank() == 1) {
      const auto never = [] { return false; };
      wait->until(never, [](int rank) { return rank == 0; }, soon());
    }
  });
  EXPECT_EQ(errors[0], "");
  EXPECT_NE(errors[1].find("rank 0 ("), std::string::npos) << errors[1];
}

/// The board, with a float per rank.
TEST(SharedBoard, ShowsEveryRankTheOthersData) {
  EXPECT_EQ(errors_of_ranks(3,
                            [](Rendezvous& rendezvous) {
                              const auto shm = connect_shm(rendezvous);
                              SharedBoard& board = *shm->shared_board();
                              const Memory memory = shm->allocate(4);
                              auto* const mine = reinterpret_cast<float*>(memory.data.get());
                              const uint64_t offset = *board.offset_of(mine);
                              for (uint64_t round = 1; round <= 200; ++round) {
                                *mine = static_cast<float>(shm->rank()) + static_cast<float>(round);
                                board.enter(label(round), {&offset, 1});
                                board.await_all_entered(soon());
                                float sum = 0;
                                for (int rank = 0; rank < 3; ++rank)
                                  sum += *reinterpret_cast<float*>(board.term(rank, 0));
                                EXPECT_EQ(sum, 3 + 3 * static_cast<float>(round));
                                board.leave();
                                board.await_all_left(soon());
                              }
                            }),
            no_errors(3));
}

TEST(SharedBoard, TellsThatARankEnteredWithSomethingElse) {
  const auto errors = errors_of_ranks(2, [](Rendezvous& rendezvous) {
    const auto shm = connect_shm(rendezvous);
    SharedBoard& board = *shm->shared_board();
    board.enter(label(static_cast<uint64_t>(shm->rank())), {});
    EXPECT_THROW(board.await_all_entered(soon()), Disagreement);
    rendezvous.gather("");
  });
  EXPECT_EQ(errors, no_errors(2));
}

}  // namespace
}  // namespace lockstep::transport
