// What groups say when their ranks do different things, or not all of them come.
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/clock.h"
#include "communicators.h"
#include "expect_error.h"
#include "random_shards.h"

namespace lockstep::collective {
namespace {

class CommunicatorErrors : public Communicators {
 protected:
  // Rank 2 of four does something else than the others: everyone names it, another rank, and what
  // both do, long before the time is over.
  static void expect_mismatch(const CommunicatorOptions& options, const RankMain& usual,
                              const RankMain& other, const std::vector<std::string>& said) {
    const Stopwatch watch;
    const auto errors = errors_of_group(
        4, options, [&](Communicator& group) { group.rank() == 2 ? other(group) : usual(group); });
    EXPECT_LT(watch.seconds(), 10);
    for (const std::string& error : errors) {
      EXPECT_NE(error.find("ranks disagree"), std::string::npos) << error;
      EXPECT_NE(error.find("rank 2 ("), std::string::npos) << error;
      for (const std::string& part : said)
        EXPECT_NE(error.find(part), std::string::npos) << part << " is not in: " << error;
    }
  }

  static int count(const std::string& text, const std::string& part) {
    int found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++found;
    return found;
  }

  // A thousand numbers for every rank, which are threads here.
  static Floats& scratch() {
    static thread_local Floats values(1000);
    return values;
  }

  static RankMain reduce(int64_t count, Type type, Operation operation) {
    return [=](Communicator& group) {
      std::vector<std::byte> data(static_cast<size_t>(count) * bytes_of(type));
      group.all_reduce({data.data(), count, type}, operation);
    };
  }
};

TEST_P(CommunicatorErrors, NameBothRanksWhereCountsDiffer) {
  for (const Algorithm algorithm : planned_algorithms())
    expect_mismatch(always(algorithm), reduce(1000, Type::f32, Operation::sum),
                    reduce(1001, Type::f32, Operation::sum), {"1000 f32", "1001 f32"});
}

// The smaller one may be reduced in one piece, the larger one in two, of which the first is as
// large.
TEST_P(CommunicatorErrors, NameBothRanksWhereCountsOfLargeBucketsDiffer) {
  expect_mismatch({}, reduce(1 << 20, Type::f32, Operation::sum),
                  reduce((1 << 20) + 1, Type::f32, Operation::sum), {"1048576 f32", "1048577 f32"});
}

TEST_P(CommunicatorErrors, NameBothRanksWhereTypesOfOneSizeDiffer) {
  for (const Algorithm algorithm : planned_algorithms())
    expect_mismatch(always(algorithm), reduce(1000, Type::f32, Operation::sum),
                    reduce(1000, Type::i32, Operation::sum), {"1000 f32", "1000 i32"});
}

TEST_P(CommunicatorErrors, NameBothRanksWhereOperationsDiffer) {
  for (const Algorithm algorithm : planned_algorithms())
    expect_mismatch(always(algorithm), reduce(1000, Type::f32, Operation::sum),
                    reduce(1000, Type::f32, Operation::max), {"sum over", "max over"});
}

TEST_P(CommunicatorErrors, NameBothRanksWhereCountsLeadToDifferentAlgorithms) {
  const auto by_size = [](int64_t bytes) {
    return bytes <= 4000 ? parse_algorithm("butterfly") : parse_algorithm("direct");
  };
  for (const int64_t count : {1000, 1001})
    expect_mismatch({.timeout_seconds = 20, .choose = by_size},
                    reduce(count, Type::f32, Operation::sum),
                    reduce(2001 - count, Type::f32, Operation::sum), {"(butterfly)", "(direct)"});
}

TEST_P(CommunicatorErrors, NameBothRanksWhereCollectivesDiffer) {
  const RankMain gather = [](Communicator& group) {
    Floats values(1000);
    group.all_gather(buffer_of(values));
  };
  const RankMain reduces = reduce(1000, Type::f32, Operation::sum);
  expect_mismatch({.timeout_seconds = 20}, gather, reduces, {"all_gather", "all_reduce"});
  expect_mismatch({.timeout_seconds = 20}, reduces, gather, {"all_gather", "all_reduce"});
}

TEST_P(CommunicatorErrors, NameBothSidesOfAMessageWhereCountsDiffer) {
  const auto errors = errors_of_group(2, {.timeout_seconds = 20}, [](Communicator& group) {
    Floats values(group.rank() == 0 ? 10 : 20);
    group.rank() == 0 ? group.send(buffer_of(values), 1) : group.receive(buffer_of(values), 0);
    group.barrier();
  });
  EXPECT_NE(errors[1].find("send_receive number 1 of 20 f32 from 0 to 1"), std::string::npos)
      << errors[1];
  EXPECT_NE(errors[1].find("send_receive number 1 of 10 f32 from 0 to 1"), std::string::npos)
      << errors[1];
}

TEST_P(CommunicatorErrors, RefusePartnersThatAreNoRanks) {
  in_group(1, [](Communicator& group) {
    Floats values(10);
    expect_bad_input([&] { group.exchange(buffer_of(values), 1, buffer_of(values), 1); },
                     {"exchange to rank 1 and from rank 1: expected other ranks from 0 to 0"});
  });
}

const CommunicatorOptions kSoonCompared{.timeout_seconds = 60, .compare_seconds = 0.1};

// Every rank gives another root, so that all wait and none sends.
TEST_P(CommunicatorErrors, NameBothRanksAndRootsWhereRootsDiffer) {
  struct Rooted {
    std::string name;
    std::function<void(Communicator&, Buffer, int)> call;
  };
  const Rooted all[] = {
      {"broadcast", [](auto& group, Buffer buffer, int root) { group.broadcast(buffer, root); }},
      {"reduce", [](auto& group, Buffer buffer, int root) { group.reduce(buffer, root); }},
      {"gather", [](auto& group, Buffer buffer, int root) { group.gather(buffer, root); }},
      {"scatter", [](auto& group, Buffer buffer, int root) { group.scatter(buffer, root); }}};
  constexpr int kWorld = 3;
  for (const Rooted& rooted : all) {
    const bool waits_for_root = rooted.name == "broadcast" || rooted.name == "scatter";
    const auto errors = errors_of_group(kWorld, kSoonCompared, [&](Communicator& group) {
      Floats values(1000);
      const int root = waits_for_root ? (group.rank() + 1) % kWorld : group.rank();
      rooted.call(group, buffer_of(values), root);
    });
    for (const std::string& error : errors) {
      EXPECT_NE(error.find("ranks disagree"), std::string::npos) << error;
      EXPECT_EQ(count(error, rooted.name + " number 1"), 2) << error;
      EXPECT_EQ(count(error, "root "), 2) << error;
    }
  }
}

TEST_P(CommunicatorErrors, NameBothRanksWhereTheyWaitForEachOtherInDifferentCalls) {
  struct Both {
    RankMain first;
    RankMain second;
    std::string one;
    std::string other;
  };
  const std::vector<Both> pairs = {
      {[](auto& group) { group.broadcast(buffer_of(scratch()), 1); },
       [](auto& group) { group.scatter(buffer_of(scratch()), 0); }, "broadcast", "scatter"},
      {[](auto& group) { group.receive(buffer_of(scratch()), 1); },
       [](auto& group) { group.receive(buffer_of(scratch()), 0); }, "from 1 to 0", "from 0 to 1"},
      {[](auto& group) { group.receive(buffer_of(scratch()), 1); },
       [](auto& group) { group.broadcast(buffer_of(scratch()), 0); }, "send_receive", "broadcast"}};
  for (const Both& both : pairs)
    for (const std::string& error : errors_of_group(2, kSoonCompared, [&](Communicator& group) {
           group.barrier();
           group.rank() == 0 ? both.first(group) : both.second(group);
         })) {
      EXPECT_NE(error.find("ranks disagree"), std::string::npos) << error;
      EXPECT_NE(error.find(both.one), std::string::npos) << error;
      EXPECT_NE(error.find(both.other), std::string::npos) << error;
    }
}

TEST_P(CommunicatorErrors, AreNotAboutRanksThatAreOnlyLate) {
  in_group(3, kSoonCompared, [](Communicator& group) {
    Floats values(1000);
    for (int late = 0; late < 3; ++late) {
      if (group.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      group.broadcast(buffer_of(values), (late + 1) % 3);
      group.all_reduce(buffer_of(values));
      if (group.rank() == 0) group.receive(buffer_of(values), 1);
      if (group.rank() == 1) group.send(buffer_of(values), 0);
      group.reduce(buffer_of(values), late);
      Floats others(1000);
      if (group.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      group.exchange(buffer_of(values), (group.rank() + 1) % 3, buffer_of(others),
                     (group.rank() + 2) % 3);
    }
  });
}

TEST_P(CommunicatorErrors, NameTheRankThatDidNotArrive) {
  in_group(2, {.timeout_seconds = 0.2}, [](Communicator& group) {
    Floats values(10'000);
    if (group.rank() == 1) return;
    try {
      group.all_reduce(buffer_of(values));
      ADD_FAILURE() << "it came";
    } catch (const Timeout& error) {
      EXPECT_EQ(error.ranks(), std::vector{1});
      EXPECT_NE(std::string(error.what()).find("rank 1 ("), std::string::npos) << error.what();
    }
  });
}

TEST_P(CommunicatorErrors, ReportAStallOnceFromTheRankThatWaits) {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> told;
  const CommunicatorOptions options{
      .timeout_seconds = 20, .stall_seconds = 0.1, .tell_stall = [&](const std::string& message) {
        const std::lock_guard lock(mutex);
        told.push_back(message);
        changed.notify_all();
      }};
  in_group(2, options, [&](Communicator& group) {
    Floats values(10'000);
    if (group.rank() == 1) {
      std::unique_lock lock(mutex);
      changed.wait_for(lock, std::chrono::seconds(15), [&] { return !told.empty(); });
      changed.wait_for(lock, std::chrono::milliseconds(300), [&] { return told.size() > 1; });
    }
    group.all_reduce(buffer_of(values), Operation::sum, {Cargo::Kind::gradients, 7});
  });
  ASSERT_EQ(told.size(), 1U) << "once, and only by the one that waits";
  EXPECT_TRUE(told[0].starts_with("rank 0 has waited 0.1 s for rank 1 in gradient bucket 7 (all_"))
      << told[0];
}

TEST_P(CommunicatorErrors, ReachAllWaitingRanksAfterATimeout) {
  const Stopwatch watch;
  const auto errors = errors_of_group(4, {.timeout_seconds = 0.2}, [](Communicator& group) {
    Floats values(10'000);
    if (group.rank() != 3) group.all_reduce(buffer_of(values));
  });
  EXPECT_LT(watch.seconds(), 2);
  for (const size_t rank : {0, 1, 2})
    EXPECT_NE(errors[rank].find(" timed out waiting for "), std::string::npos) << errors[rank];
}

TEST_P(CommunicatorErrors, AreThrownByEveryLaterCall) {
  in_group(2, [](Communicator& group) {
    if (group.rank() == 0) group.abort("a reason");
    if (group.rank() == 0) group.abort("another one, later");
    const std::string expected =
        group.rank() == 0 ? "rank 0 aborted earlier: a reason" : "aborted: a reason";
    Floats values(10);
    for (int i = 0; i < 2; ++i) {
      const std::string message = message_of<Error>([&] { group.all_reduce(buffer_of(values)); });
      EXPECT_NE(message.find(expected), std::string::npos) << message;
    }
  });
}

TEST_P(CommunicatorErrors, OfStartedCollectivesAreThrownByWait) {
  in_group(2, [](Communicator& group) {
    Floats values(group.rank() == 0 ? 1000 : 1001);
    Floats more(10);
    const Pending first = group.all_reduce_async(buffer_of(values));
    const Pending second = group.all_reduce_async(buffer_of(more));
    EXPECT_THROW(first.wait(), Error);
    EXPECT_THROW(second.wait(), Error);
  });
}

TEST_P(CommunicatorErrors, TellOtherRanksThatAGroupWasClosedWhileCollectivesRan) {
  const auto errors = transport::errors_of_ranks(2, [](transport::Rendezvous& rendezvous) {
    auto group = std::make_unique<Communicator>(transport::connect_over(GetParam(), rendezvous),
                                                CommunicatorOptions{});
    Floats values(1000);
    if (group->rank() == 0) {
      const Pending pending = group->all_reduce_async(buffer_of(values));
      group.reset();
      EXPECT_THROW(pending.wait(), Error);
    }
    rendezvous.gather("");
    // What was sent before may still arrive.
    while (group) group->all_reduce(buffer_of(values));
  });
  EXPECT_NE(errors[1].find("closed while collectives were running"), std::string::npos)
      << errors[1];
}

TEST_P(CommunicatorErrors, RefuseTermsThatAreNotThoseOfTheShards) {
  in_group(1, [](Communicator& group) {
    std::vector<Buffer> terms(5);
    EXPECT_THROW(group.all_reduce(terms, Shards::even(3, 1), Operation::sum), BadInput);
  });
}

TEST_P(CommunicatorErrors, RefuseAnEngineThatATransportDoesNotHave) {
  in_group(1, always(parse_algorithm("engine")), [](Communicator& group) {
    Floats values(10);
    expect_bad_input([&] { group.all_reduce(buffer_of(values)); },
                     {"algorithm engine", group.transport().name()});
  });
}

INSTANTIATE_TEST_SUITE_P(Over, CommunicatorErrors, every_carrier(), name_of_carrier);

}  // namespace
}  // namespace lockstep::collective
