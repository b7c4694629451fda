#include "doctor/processors.h"

#include <gtest/gtest.h>

#include "doctor/findings.h"
#include "scoped_variable.h"
#include "temporary_folder.h"

namespace lockstep::doctor {
namespace {

ProcessorFacts eight_cores() {
  return {.model = "Some CPU",
          .kernels = "AVX2",
          .sockets = 1,
          .cores = 8,
          .threads = 16,
          .numa_nodes = 1,
          .allowed_cores = 8,
          .allowed_threads = 16};
}

TEST(Processors, ThatAreAllUsableAreNoFinding) {
  EXPECT_TRUE(judge(eight_cores()).empty());
  ProcessorFacts enough = eight_cores();
  enough.cgroup.cores = 16;
  enough.stolen = 0.01;
  EXPECT_TRUE(judge(enough).empty());
}

TEST(Processors, LimitedByACgroupSayHowManyWorkersToUse) {
  ProcessorFacts facts = eight_cores();
  facts.cgroup = {.cores = 2.5, .cores_file = "/sys/fs/cgroup/cpu.max"};
  EXPECT_EQ(usable_cores(facts), 2);
  expect_one(judge(facts), "processors.quota", Severity::advice,
             {"2.5 of 16 hardware threads", "/sys/fs/cgroup/cpu.max", "--workers 2"});
  facts.cgroup.cores = 0.3;
  EXPECT_EQ(usable_cores(facts), 1);
}

TEST(Processors, OutsideTheAffinityMaskAreCounted) {
  ProcessorFacts facts = eight_cores();
  facts.allowed_threads = 6;
  facts.allowed_cores = 3;
  expect_one(judge(facts), "processors.affinity", Severity::advice,
             {"6 of 16 hardware threads", "--workers 3"});
}

TEST(Processors, WhoseTimeIsStolenAreAdviceAboveAFewPercent) {
  ProcessorFacts facts = eight_cores();
  facts.stolen = 0.25;
  expect_one(judge(facts), "processors.stolen", Severity::advice, {"25 %"});
}

TEST(Processors, WithoutOurKernelsSaySo) {
  ProcessorFacts facts = eight_cores();
  facts.kernels = "none";
  expect_one(judge(facts), "processors.kernels", Severity::advice, {"Some CPU", "AVX2"});
}

TEST(Processors, AreCountedByCoreThreadAndNumaNode) {
  const ScopedVariable machine("HWLOC_SYNTHETIC", "package:2 numa:1 l3:1 core:4 pu:2");
  const ProcessorFacts facts = gather_processors("/");
  EXPECT_EQ(facts.sockets, 2);
  EXPECT_EQ(facts.numa_nodes, 2);
  EXPECT_EQ(facts.cores, 8);
  EXPECT_EQ(facts.threads, 16);
  ASSERT_FALSE(facts.caches.empty());
  EXPECT_GT(facts.caches.front(), 0);
}

TEST(CpuTimes, GiveTheShareThatWasStolen) {
  const TemporaryFolder root;
  root.write("proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 100 0 100 800 0 0 0 0 0 0\n");
  const CpuTimes before = cpu_times(root.path());
  root.write("proc/stat", "cpu  110 0 110 860 0 0 0 20 0 0\n");
  EXPECT_EQ(stolen_share(before, cpu_times(root.path())), 0.2);
  EXPECT_FALSE(stolen_share(before, before)) << "no time has passed";
}

}  // namespace
}  // namespace lockstep::doctor
