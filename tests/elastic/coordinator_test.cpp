#include "elastic/coordinator.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "elastic/controller.h"
#include "elastic/member.h"
#include "expect_error.h"
#include "net/socket.h"

namespace lockstep::elastic {
namespace {

Membership::Bounds with_facts(Membership::Bounds limits) {
  limits.facts = {{"the recipe", "a"}};
  return limits;
}

/// A coordinator that serves in a thread; members are threads of this process too, which counts as
/// the worker in place 0.
class Serving {
 public:
  explicit Serving(const Membership::Bounds& limits, double silence_seconds = 10)
      : port_(net::free_port()),
        silence_seconds_(silence_seconds),
        coordinator_({.host = "127.0.0.1",
                      .port = port_,
                      .key = "a key",
                      .silence_seconds = silence_seconds,
                      .limits = with_facts(limits),
                      .tell = [](const std::string&) {}}) {
    coordinator_.started(getpid(), 0);
    thread_ = std::thread([this] {
      while (!ends_) {
        std::vector<pollfd> waits;
        coordinator_.add_waits(waits);
        net::wait_for(waits, std::min(0.02, coordinator_.patience()));
        coordinator_.serve();
        if (!coordinator_.take_condemned().empty()) condemned_ = true;
      }
    });
  }
  ~Serving() {
    ends_ = true;
    thread_.join();
  }

  MemberOptions options(const std::string& recipe = "a", const std::string& key = "a key") const {
    return {.host = "127.0.0.1",
            .port = port_,
            .key = key,
            .facts = {{"the recipe", recipe}},
            .silence_seconds = silence_seconds_,
            .connect_seconds = 5};
  }
  bool condemned() const { return condemned_; }

 private:
  const uint16_t port_;
  const double silence_seconds_;
  Coordinator coordinator_;
  std::atomic<bool> ends_ = false;
  std::atomic<bool> condemned_ = false;
  std::thread thread_;
};

TEST(Coordinator, TellsMembersWithWhomToWork) {
  const Serving serving({.first = 2, .here = 1, .most = 2});
  Member first(serving.options()), second(serving.options());
  const Go a = std::get<Go>(first.next({}));
  const Go b = std::get<Go>(second.next({}));
  EXPECT_EQ(a.world, 2);
  EXPECT_EQ(a.rank + b.rank, 1);
  EXPECT_EQ(a.port, b.port);
  EXPECT_EQ(a.generation, b.generation);
}

TEST(Coordinator, TellsTheOthersToLeaveWhenOneSaysItLostSomebody) {
  const Serving serving({.first = 2, .here = 1, .most = 2});
  Member first(serving.options()), second(serving.options());
  first.next({});
  second.next({});
  std::atomic<bool> aborted = false;
  second.on_leave([&](const std::string&) { aborted = true; });
  std::thread waits([&] { first.next({.generation = 1, .step = 4, .why = "lost rank 1"}); });
  const Deadline deadline = Deadline::in(5);
  while (!aborted && !deadline.passed()) std::this_thread::yield();
  EXPECT_TRUE(aborted);
  EXPECT_TRUE(second.must_leave());
  EXPECT_EQ(std::get<Go>(second.next({.generation = 1, .step = 4})).generation, 2);
  EXPECT_FALSE(second.must_leave());
  waits.join();
}

TEST(Coordinator, AsksAllToRegroupWhenSomebodyWantsToJoin) {
  const Serving serving({.first = 1, .here = 1, .most = 2});
  Member first(serving.options());
  first.next({});
  control(serving.options(), {.workers = 2});
  Member second(serving.options());
  const Deadline deadline = Deadline::in(5);
  while (!first.regroup() && !deadline.passed()) std::this_thread::yield();
  EXPECT_TRUE(first.regroup());
  EXPECT_FALSE(first.must_leave());
  std::thread joins([&] { EXPECT_EQ(std::get<Go>(second.next({})).world, 2); });
  EXPECT_EQ(std::get<Go>(first.next({.generation = 1, .step = 1})).world, 2);
  EXPECT_FALSE(first.regroup());
  joins.join();
}

TEST(Coordinator, RefusesAJoinerWithAnotherRecipeAndDisturbsNobody) {
  const Serving serving({.first = 1, .here = 1, .most = 4});
  Member first(serving.options());
  first.next({});
  Member other(serving.options("b"));
  const Dismiss refusal = std::get<Dismiss>(other.next({}));
  EXPECT_TRUE(refusal.refused);
  EXPECT_EQ(refusal.why, "the job has the recipe a, this worker has b");
  EXPECT_FALSE(first.regroup());
  EXPECT_FALSE(first.must_leave());
}

TEST(Coordinator, RefusesAJoinerWithAnotherKey) {
  const Serving serving({.first = 1, .here = 1, .most = 4});
  expect_bad_input([&] { Member(serving.options("a", "another key")); }, {"key"});
}

TEST(Coordinator, CondemnsAWorkerOfThisHostThatHangsUpBeforeItCountsAsLost) {
  const Serving serving({.first = 1, .here = 1, .most = 4});
  {
    Member first(serving.options());
    first.next({});
  }
  const Deadline deadline = Deadline::in(5);
  while (!serving.condemned() && !deadline.passed()) std::this_thread::yield();
  EXPECT_TRUE(serving.condemned());
}

TEST(Coordinator, TellsWhoTheWorkersAreAndChangesHowManyThereAre) {
  const Serving serving({.first = 1, .here = 1, .most = 4});
  Member first(serving.options());
  first.next({});
  EXPECT_NE(control(serving.options(), {}).find("rank 0 ("), std::string::npos);
  EXPECT_EQ(control(serving.options(), {.workers = 3}), "3 workers from the next step on\n");
  expect_bad_input([&] { control(serving.options(), {.workers = 5}); }, {"--set 5", "1 to 4"});
}

TEST(Member, EndsWhenTheCoordinatorIsGone) {
  auto serving = std::make_unique<Serving>(Membership::Bounds{.first = 1, .here = 1, .most = 4});
  Member member(serving->options());
  member.next({});
  serving.reset();
  EXPECT_NE(message_of<PeerLost>([&] { member.next({.generation = 1}); }).find("is gone"),
            std::string::npos);
  EXPECT_TRUE(member.must_leave());
}

TEST(Member, SaysWhereItFoundNoCoordinator) {
  MemberOptions options{
      .host = "127.0.0.1", .port = net::free_port(), .key = "k", .connect_seconds = 0.2};
  EXPECT_NE(message_of<Timeout>([&] { Member{options}; }).find("was not reached at 127.0.0.1"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::elastic
