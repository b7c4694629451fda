// The judges of versions, ranks, network, clock, hosts and the self-test.
#include <gtest/gtest.h>

#include "doctor/clock.h"
#include "doctor/findings.h"
#include "doctor/hosts.h"
#include "doctor/network.h"
#include "doctor/ranks.h"
#include "doctor/self_test.h"
#include "doctor/versions.h"

namespace lockstep::doctor {
namespace {

TEST(Versions, OfALibraryThatCannotBeLoadedAreAProblem) {
  EXPECT_TRUE(judge(VersionFacts{}).empty());
  expect_one(judge(VersionFacts{.library_failure = "liblockstep.so: not found"}),
             "versions.library", Severity::problem, {"liblockstep.so: not found", "install"});
}

RankFacts rank_of(std::vector<launch::ToldRank> told) {
  return {.job = launch::Job{.world = told.front().world, .master_host = "node1"},
          .told = std::move(told)};
}

TEST(Ranks, ThatAgreeAreNoFinding) {
  EXPECT_TRUE(judge(RankFacts{}).empty()) << "no launcher";
  EXPECT_TRUE(
      judge(rank_of({{"Open MPI", "OMPI_COMM_WORLD_SIZE", 1, 4}, {"PMIx", "PMIX_SIZE", 1, 4}}))
          .empty());
}

TEST(Ranks, WhoseWorldsDisagreeNameBothVariables) {
  expect_one(judge(rank_of(
                 {{"torchrun's variables", "WORLD_SIZE", 0, 8}, {"Slurm", "SLURM_NTASKS", 0, 4}})),
             "ranks.world_size", Severity::problem,
             {"WORLD_SIZE=8", "SLURM_NTASKS=4 (by Slurm)", "unset RANK WORLD_SIZE"});
}

TEST(Ranks, OfALauncherInEachTaskOfAnotherAgree) {
  RankFacts facts =
      rank_of({{"torchrun's variables", "WORLD_SIZE", 0, 8}, {"Slurm", "SLURM_NTASKS", 0, 2}});
  facts.local_world = 4;
  EXPECT_TRUE(judge(facts).empty());
}

TEST(Ranks, ThatTheLauncherRefusesRepeatWhy) {
  expect_one(judge(RankFacts{.failure = "RANK='5': expected a number from 0 to 3"}),
             "ranks.environment", Severity::problem, {"RANK='5'", "unset RANK WORLD_SIZE"});
}

TEST(Ranks, WhoseMasterHasNoAddressNameIt) {
  RankFacts facts = rank_of({{"torchrun's variables", "WORLD_SIZE", 0, 8}});
  facts.address_failure = "no such host";
  expect_one(judge(facts), "ranks.master", Severity::problem,
             {"node1", "no such host", "MASTER_ADDR"});
  facts.job->by_mpi = true;
  expect_one(judge(facts), "ranks.master", Severity::advice, {"node1"});
}

TEST(Network, ThatWorksIsNoFindingAndNeedsNoIpv6) {
  EXPECT_TRUE(judge(NetworkFacts{.ipv6 = "::1 is no address of this machine"}).empty());
  EXPECT_TRUE(judge(NetworkFacts{.master_port = ""}).empty());
}

TEST(Network, ThatFailsSaysWhichPartAndWhy) {
  expect_one(judge(NetworkFacts{.ipv4 = "refused", .shared_memory = "not tried"}),
             "network.loopback", Severity::problem, {"refused", "ip link set lo up"});
  expect_one(judge(NetworkFacts{.shared_memory = "cannot make shared memory"}),
             "network.shared_memory", Severity::problem,
             {"cannot make shared memory", "--transport tcp"});
  expect_one(judge(NetworkFacts{.master_port = "node1:29500: the port is in use"}),
             "network.master_port", Severity::problem, {"node1:29500", "MASTER_PORT"});
}

TEST(Clock, ThatIsFineAndAloneIsNoFinding) {
  EXPECT_TRUE(judge(ClockFacts{.resolution_ns = 1}).empty());
  EXPECT_TRUE(
      judge(ClockFacts{.resolution_ns = 1, .synchronised = true, .several_hosts = true}).empty());
}

TEST(Clock, ThatIsCoarseOrNotSynchronisedIsAdvice) {
  expect_one(judge(ClockFacts{.resolution_ns = 4'000'000, .source = "jiffies"}), "clock.resolution",
             Severity::advice, {"4000000 ns", "jiffies"});
  expect_one(judge(ClockFacts{.resolution_ns = 1, .several_hosts = true}), "clock.synchronised",
             Severity::advice, {"chrony"});
}

TEST(Host, ThatAnswersIsNoFinding) {
  EXPECT_TRUE(judge(HostFacts{.name = "node1", .address = "10.0.0.7", .start = 0.3}).empty());
}

TEST(Host, ThatCannotBeUsedIsNamedWithItsAddressAndWhatToTry) {
  expect_one(judge(HostFacts{.name = "node1",
                             .port = 22,
                             .address = "10.0.0.7",
                             .failure = "did not answer within 2 s",
                             .cure = "check that `ssh node1 true` ends at once"}),
             "hosts.unreachable", Severity::problem,
             {"node1 (10.0.0.7 port 22)", "did not answer within 2 s", "ssh node1 true"});
  expect_one(judge(HostFacts{.name = "nowhere",
                             .address_failure = "no such host",
                             .failure = "ssh cannot connect",
                             .cure = "check the name"}),
             "hosts.unreachable", Severity::problem, {"nowhere (no address: no such host)"});
}

TEST(Host, ThatOnlySshKnowsByItsNameIsAdvice) {
  expect_one(judge(HostFacts{.name = "alias", .address_failure = "no such host", .start = 0.3}),
             "hosts.address", Severity::advice, {"alias", "all hosts know"});
}

SelfTestFacts trained(double one, double two) {
  return {.device = "cuda",
          .one = {.workers = 1, .model_sha256 = "aaaa", .samples_per_second = one},
          .two = {.workers = 2, .model_sha256 = "aaaa", .samples_per_second = two}};
}

TEST(SelfTest, WithEqualModelsAndMoreSpeedIsNoFinding) {
  EXPECT_TRUE(judge(trained(1000, 1900)).empty());
}

TEST(SelfTest, WithDifferentModelsIsAProblem) {
  SelfTestFacts facts = trained(1000, 1900);
  facts.two.model_sha256 = "bbbb";
  expect_one(judge(facts), "self-test.models", Severity::problem, {"cuda", "aaaa", "bbbb"});
}

TEST(SelfTest, WithTwoWorkersSlowerThanOneIsAdvice) {
  expect_one(judge(trained(1000, 900)), "self-test.slower", Severity::advice,
             {"900 and 1,000 samples/s"});
}

TEST(SelfTest, ThatFailsRepeatsWhatTheTrainingSaid) {
  SelfTestFacts facts = trained(1000, 900);
  facts.two = {.workers = 2, .failure = "cuda:1 is out of memory"};
  expect_one(judge(facts), "self-test.failed", Severity::problem,
             {"2 devices of kind cuda", "cuda:1 is out of memory", "--workers 2"});
}

}  // namespace
}  // namespace lockstep::doctor
