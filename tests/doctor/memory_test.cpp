#include "doctor/memory.h"

#include <gtest/gtest.h>

#include "doctor/findings.h"
#include "temporary_folder.h"

namespace lockstep::doctor {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = 1024 * kMiB;

MemoryFacts plenty() {
  return {.total = 64 * kGiB, .available = 60 * kGiB, .shm_size = 32 * kGiB, .shm_free = 32 * kGiB};
}

TEST(Memory, ThatIsPlentyIsNoFinding) {
  EXPECT_TRUE(judge(plenty()).empty());
}

TEST(Memory, LimitedByACgroupSaysByHowMuchAndWhere) {
  MemoryFacts facts = plenty();
  facts.cgroup = {
      .memory = 4 * kGiB, .memory_file = "/sys/fs/cgroup/memory.max", .memory_used = kGiB};
  expect_one(judge(facts), "memory.cgroup", Severity::advice,
             {"4.0 GiB of 64 GiB", "1.0 GiB is in use", "/sys/fs/cgroup/memory.max"});
  facts.cgroup.memory = 128 * kGiB;
  EXPECT_TRUE(judge(facts).empty()) << "more than there is";
}

TEST(Memory, WithTooFewAddressesIsAProblem) {
  MemoryFacts facts = plenty();
  facts.address_space = 32 * kGiB;
  expect_one(judge(facts), "memory.address_space", Severity::problem,
             {"ulimit -v is 32 GiB", "ulimit -v unlimited", "--transport tcp"});
}

TEST(Memory, ThatIsNearlyUsedUpIsAdvice) {
  MemoryFacts facts = plenty();
  facts.available = 100 * kMiB;
  expect_one(judge(facts), "memory.available", Severity::advice, {"100 MiB"});
}

TEST(Memory, ThatCannotBeLockedMattersForInfinibandOnly) {
  MemoryFacts facts = plenty();
  facts.locked = 8 * kMiB;
  EXPECT_TRUE(judge(facts).empty());
  facts.has_infiniband = true;
  expect_one(judge(facts), "memory.locked", Severity::advice, {"8.0 MiB", "ulimit -l unlimited"});
}

TEST(Memory, InDevShmIsAProblemWhereItIsFullAndAdviceWhereItIsSmall) {
  MemoryFacts facts = plenty();
  facts.shm_size = 64 * kMiB;
  facts.shm_free = 64 * kMiB;
  expect_one(judge(facts), "memory.shm", Severity::advice, {"64 MiB free of 64 MiB", "--shm-size"});
  facts.shm_free = kMiB;
  expect_one(judge(facts), "memory.shm", Severity::problem, {"1.0 MiB free of 64 MiB", "remount"});
  facts.shm_size.reset();
  expect_one(judge(facts), "memory.shm", Severity::advice, {"no /dev/shm", "mount -t tmpfs"});
}

TEST(Memory, IsReadFromTheSystemsFiles) {
  const TemporaryFolder root;
  root.write("proc/meminfo", "MemTotal:  2048 kB\nMemFree:  1 kB\nMemAvailable:  1024 kB\n");
  root.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  root.write("sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
  const MemoryFacts facts = gather_memory(root.path());
  EXPECT_EQ(facts.total, 2 * kMiB);
  EXPECT_EQ(facts.available, kMiB);
  EXPECT_EQ(facts.huge_pages, "madvise");
  EXPECT_TRUE(facts.has_infiniband);
  EXPECT_FALSE(facts.shm_size);
  EXPECT_FALSE(gather_memory("/nowhere").has_infiniband);
}

}  // namespace
}  // namespace lockstep::doctor
