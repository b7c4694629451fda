#include "elastic/membership.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <variant>

namespace lockstep::elastic {
namespace {

const Facts kFacts = {{"the recipe", "a"}};

Hello hello(const std::string& recipe = "a") {
  return {.facts = {{"the recipe", recipe}}, .host = "node", .identity = "i", .pid = 7};
}

Seat here(int place) {
  return {.here = place};
}

/// "1: go 0/2" or "2: leave at once", one for every order.
std::vector<std::string> texts(const std::vector<Order>& orders) {
  std::vector<std::string> all;
  for (const auto& [to, what] : orders) {
    if (const auto* go = std::get_if<Go>(&what))
      all.push_back(fmt::format("{}: {} {}/{}", to, go->last ? "save" : "go", go->rank, go->world));
    if (const auto* leave = std::get_if<Leave>(&what))
      all.push_back(fmt::format("{}: leave{}", to, leave->at_once ? " at once" : ""));
    if (const auto* dismiss = std::get_if<Dismiss>(&what))
      all.push_back(fmt::format("{}: dismiss {}", to, dismiss->why));
  }
  return all;
}

using Texts = std::vector<std::string>;

/// Workers 1 and 2, both here, at work on a job that has had `generation` generations.
Membership two_at_work(Membership::Bounds limits = {
                           .facts = kFacts, .first = 2, .here = 2, .most = 4}) {
  Membership membership(limits);
  membership.admit(1, hello(), here(0));
  membership.admit(2, hello(), here(1));
  membership.orders();
  return membership;
}

TEST(Membership, BeginsOnceAllHaveCome) {
  Membership membership({.facts = kFacts, .first = 2, .here = 2, .most = 2});
  membership.admit(5, hello(), here(1));
  EXPECT_EQ(texts(membership.orders()), Texts{});
  membership.admit(6, hello(), here(0));
  EXPECT_EQ(texts(membership.orders()), (Texts{"6: go 0/2", "5: go 1/2"}));
  EXPECT_EQ(texts(membership.orders()), Texts{});
}

TEST(Membership, GivesTheFirstRanksToThisHost) {
  Membership membership({.facts = kFacts, .first = 3, .here = 1, .most = 3});
  membership.admit(1, hello(), {});
  membership.admit(2, hello(), {});
  membership.admit(3, hello(), here(0));
  EXPECT_EQ(texts(membership.orders()), (Texts{"3: go 0/3", "1: go 1/3", "2: go 2/3"}));
}

TEST(Membership, GoesOnWithoutWhoIsLost) {
  Membership membership = two_at_work();
  membership.lost(2);
  EXPECT_EQ(texts(membership.orders()), Texts{"1: leave at once"});
  EXPECT_EQ(texts(membership.orders()), Texts{}) << "it was told";
  membership.ready(1, {.generation = 1, .step = 3, .why = "lost rank 1"});
  const auto orders = membership.orders();
  EXPECT_EQ(texts(orders), Texts{"1: go 0/1"});
  EXPECT_EQ(std::get<Go>(orders[0].what).why, "rank 1 (node, pid 7)");
  EXPECT_EQ(std::get<Go>(orders[0].what).generation, 2);
}

TEST(Membership, WaitsForEveryoneBeforeTheNextGeneration) {
  Membership membership({.facts = kFacts, .first = 3, .here = 3, .most = 3});
  for (int id = 1; id <= 3; ++id) membership.admit(id, hello(), here(id));
  membership.orders();
  membership.lost(3);
  membership.orders();
  membership.ready(1, {.generation = 1, .step = 5});
  EXPECT_EQ(texts(membership.orders()), Texts{});
  membership.ready(2, {.generation = 1, .step = 4});
  EXPECT_EQ(texts(membership.orders()), (Texts{"1: go 0/2", "2: go 1/2"}));
}

TEST(Membership, LetsANewcomerInAfterAStep) {
  Membership membership = two_at_work();
  membership.admit(3, hello(), {});
  EXPECT_EQ(texts(membership.orders()), (Texts{"1: leave", "2: leave"}));
  membership.ready(1, {.generation = 1, .step = 3});
  membership.ready(2, {.generation = 1, .step = 3});
  EXPECT_EQ(texts(membership.orders()), (Texts{"1: go 0/3", "2: go 1/3", "3: go 2/3"}));
}

TEST(Membership, AsksAgainWhenSomebodyIsLostWhileAllAreLeaving) {
  Membership membership = two_at_work();
  membership.admit(3, hello(), {});
  membership.orders();
  membership.lost(2);
  EXPECT_EQ(texts(membership.orders()), Texts{"1: leave at once"});
}

TEST(Membership, DismissesTheLastWhenFewerAreWanted) {
  Membership membership = two_at_work();
  EXPECT_EQ(membership.want(1), std::nullopt);
  EXPECT_EQ(membership.places_here(), 1);
  EXPECT_EQ(texts(membership.orders()), (Texts{"1: leave", "2: leave"}));
  membership.ready(1, {.generation = 1, .step = 3});
  membership.ready(2, {.generation = 1, .step = 3});
  EXPECT_EQ(texts(membership.orders()), (Texts{"2: dismiss ", "1: go 0/1"}));
}

TEST(Membership, DismissesAReplacementThatIsNoLongerWanted) {
  Membership membership = two_at_work();
  membership.want(2);
  membership.admit(3, hello(), here(2));
  membership.orders();
  membership.ready(1, {.generation = 1, .step = 3});
  membership.ready(2, {.generation = 1, .step = 3});
  EXPECT_EQ(texts(membership.orders()), (Texts{"3: dismiss ", "1: go 0/2", "2: go 1/2"}));
}

TEST(Membership, LetsWhoResignsGoAfterAStep) {
  Membership membership = two_at_work();
  membership.resign(2);
  EXPECT_EQ(texts(membership.orders()), (Texts{"1: leave", "2: leave"}));
  membership.ready(1, {.generation = 1, .step = 3});
  membership.ready(2, {.generation = 1, .step = 3});
  EXPECT_EQ(texts(membership.orders()), (Texts{"2: dismiss ", "1: go 0/1"}));
}

TEST(Membership, SaysForHowManyItWaits) {
  Membership membership({.facts = kFacts, .first = 2, .here = 2, .most = 2});
  membership.admit(1, hello(), here(0));
  EXPECT_EQ(membership.shortage(), "1 of 2 workers");
  membership.admit(2, hello(), here(1));
  EXPECT_EQ(membership.shortage(), "");
}

TEST(Membership, KeepsMorePlacesHereWhenMoreAreWanted) {
  Membership membership({.facts = kFacts, .first = 3, .here = 1, .most = 8});
  membership.admit(1, hello(), {});
  membership.admit(2, hello(), {});
  EXPECT_EQ(membership.want(5), std::nullopt);
  EXPECT_EQ(membership.places_here(), 3) << "two are on other hosts";
  membership.lost(2);
  EXPECT_EQ(membership.want(5), std::nullopt);
  EXPECT_EQ(membership.places_here(), 4) << "one is gone";
  EXPECT_NE(membership.want(9)->find("1 to 8"), std::string::npos);
  EXPECT_EQ(membership.places_here(), 4);
}

TEST(Membership, WaitsForSomebodyHereSinceTheRecordIsKeptHere) {
  Membership membership({.facts = kFacts, .first = 2, .here = 1, .most = 2});
  membership.admit(1, hello(), here(0));
  membership.admit(2, hello(), {});
  membership.orders();
  membership.lost(1);
  membership.orders();
  membership.ready(2, {.generation = 1, .step = 9});
  EXPECT_EQ(texts(membership.orders()), Texts{});
  membership.admit(3, hello(), here(0));
  EXPECT_EQ(texts(membership.orders()), (Texts{"3: go 0/2", "2: go 1/2"}));
}

TEST(Membership, SavesAndStopsWhenTooFewAreLeft) {
  Membership membership = two_at_work(
      {.facts = kFacts, .first = 2, .here = 2, .least = 2, .most = 2, .patience_seconds = 0});
  membership.lost(2);
  membership.orders();
  membership.ready(1, {.generation = 1, .step = 3});
  EXPECT_EQ(texts(membership.orders()), Texts{"1: save 0/1"});
  EXPECT_TRUE(membership.gave_up());
  membership.bye(1);
  EXPECT_TRUE(membership.over());
}

TEST(Membership, EndsWhenTooFewComeAtAll) {
  Membership membership({.facts = kFacts, .first = 2, .here = 2, .most = 2, .patience_seconds = 0});
  membership.admit(1, hello(), here(0));
  EXPECT_EQ(texts(membership.orders()),
            Texts{"1: dismiss 2 workers are needed, and 1 came in 0 s"});
  EXPECT_TRUE(membership.over());
}

TEST(Membership, IsOverWhenAWorkerSaysGoodbyeSinceAllDoTogether) {
  Membership membership = two_at_work();
  membership.bye(2);
  EXPECT_TRUE(membership.over());
  EXPECT_EQ(texts(membership.orders()), Texts{}) << "the other one comes to its end by itself";
  EXPECT_EQ(membership.failure(), "");
  EXPECT_EQ(membership.admit(3, hello(), here(0)), "the job is at its end");
}

TEST(Membership, EndsForAllWhenOneFailsByItself) {
  Membership membership = two_at_work();
  membership.failed(1, {.why = "the disk is full", .exit_code = 2});
  EXPECT_EQ(texts(membership.orders()), Texts{"2: dismiss the disk is full"});
  EXPECT_EQ(membership.failure(), "the disk is full");
  EXPECT_EQ(membership.exit_code(), 2);
}

TEST(Membership, RefusesWhoHoldsSomethingElse) {
  Membership membership = two_at_work();
  EXPECT_EQ(membership.admit(3, hello("b"), {}), "the job has the recipe a, this worker has b");
  EXPECT_EQ(texts(membership.orders()), Texts{}) << "nobody is disturbed";
}

TEST(Membership, RefusesWhoIsOneTooMany) {
  Membership membership = two_at_work({.facts = kFacts, .first = 2, .here = 2, .most = 2});
  EXPECT_NE(membership.admit(3, hello(), {})->find("--max-workers"), std::string::npos);
}

TEST(Membership, GivesUpOnWorkersThatAreLostAgainAndAgainWithoutAStep) {
  Membership membership = two_at_work();
  int64_t generation = 1;
  for (; generation < 100 && !membership.over(); ++generation) {
    for (const MemberId id : {1, 2})
      membership.ready(id, {.generation = generation, .step = 3, .why = "lost somebody"});
    membership.orders();
  }
  EXPECT_LT(generation, 20);
  EXPECT_NE(membership.failure().find("without finishing a step"), std::string::npos);
}

TEST(Membership, GoesOnHoweverManyAreLostWhileStepsAreFinished) {
  Membership membership = two_at_work();
  for (int64_t generation = 1; generation < 100; ++generation) {
    // Every second generation ends because somebody joins.
    const std::string why = generation % 2 == 0 ? "lost somebody" : "";
    for (const MemberId id : {1, 2})
      membership.ready(id, {.generation = generation, .step = generation / 2, .why = why});
    membership.orders();
    ASSERT_FALSE(membership.over()) << generation;
  }
}

TEST(Membership, IsStoppedAfterAStepWithACheckpoint) {
  Membership membership = two_at_work();
  membership.stop();
  EXPECT_EQ(texts(membership.orders()), (Texts{"1: leave", "2: leave"}));
  membership.ready(1, {.generation = 1, .step = 3});
  membership.ready(2, {.generation = 1, .step = 3});
  EXPECT_EQ(texts(membership.orders()), (Texts{"1: save 0/2", "2: save 1/2"}));
  EXPECT_EQ(texts(membership.orders()), Texts{}) << "it is being done";
}

TEST(Membership, IsStoppedAtOnceBeforeItHasBegun) {
  Membership membership({.facts = kFacts, .first = 2, .here = 2, .most = 2});
  membership.admit(1, hello(), here(0));
  membership.stop();
  EXPECT_EQ(texts(membership.orders()), Texts{"1: dismiss "});
  EXPECT_TRUE(membership.over());
}

TEST(Membership, IsInNoHurryWhileWorkersWork) {
  EXPECT_GT(two_at_work({.facts = kFacts, .first = 2, .here = 2, .most = 2, .patience_seconds = 0})
                .patience(),
            1);
}

TEST(Membership, EndsWithACheckpointWhenItIsStoppedAndSomebodyIsLost) {
  Membership membership = two_at_work();
  membership.stop();
  membership.lost(2);
  membership.orders();
  membership.ready(1, {.generation = 1, .step = 3});
  EXPECT_EQ(texts(membership.orders()), Texts{"1: save 0/1"});
  EXPECT_FALSE(membership.gave_up());
}

}  // namespace
}  // namespace lockstep::elastic
